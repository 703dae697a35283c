"""The errors that an operation can answer with, derived from its parameters, its body and its security.

Pure: takes values of the schema and returns values. A test compares the codes with those of `chatmemory.errors`.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

CODES: dict[int, list[str]] = {
    400: ["invalid_request"],
    401: ["not_authenticated", "invalid_credentials"],
    403: ["permission_denied"],
    404: ["not_found"],
    406: ["not_acceptable"],
    409: ["chat_busy", "conflict"],
    413: ["too_large"],
    415: ["unsupported_media_type"],
    422: ["idempotency_mismatch"],
    429: ["rate_limited", "quota_exceeded"],
    500: ["internal"],
    502: ["upstream_error"],
    503: ["unavailable"],
    504: ["upstream_timeout"],
}
WHEN = {
    400: "The request is not valid.",
    401: "The token is missing or invalid, or the password is wrong.",
    403: "The session's CSRF token is missing.",
    404: "It does not exist, or it belongs to another user.",
    406: "None of the media types in `Accept` is available.",
    409: "A reply is being written in this chat, or has already ended.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "The `Idempotency-Key` was used with a different request.",
    429: "A rate limit or the daily token quota is reached.",
    500: "An unexpected error of the server. It has been logged.",
    502: "The model provider returned no usable response.",
    503: "The server is not ready, or is shutting down.",
    504: "The model provider did not respond in time.",
}
EXAMPLES = {
    400: "message: This field is required.",
    401: "Authentication required: send `Authorization: Bearer <token>` with a valid token.",
    403: "You do not have permission to do this.",
    404: "Not found.",
    406: "Could not satisfy the request Accept header.",
    409: "A reply is being written in this chat. Wait for it, or cancel it.",
    413: "The request body is too large.",
    415: 'Unsupported media type "text/plain" in request.',
    422: "This Idempotency-Key was used with a different request.",
    429: "Too many requests. Try again in 12 seconds.",
    500: "Something went wrong on our side. It has been logged.",
    502: "The model provider failed (503).",
    503: "The server cannot do this right now. Try again in a moment.",
    504: "The model did not answer in time.",
}
"""An example of the message with each status."""
REPLYING = {"message", "message_first", "messages_create", "messages_regenerate", "completions_create"}
"""Operations that make a reply in a chat."""
STATELESS = {"ask", "summarize"}
OF_OPENAI = {"completions_create", "models_read"}
"""Operations whose errors have OpenAI's shape."""
REBUILDING = {"resummarize", "chats_update", "revisions_restore", "brief_resume", "brief_clear"}
"""Operations that rebuild a chat's memory."""
LIMITED = {
    *REPLYING,
    *STATELESS,
    *REBUILDING,
    "messages_stream",
    "v1_auth_token_create",
    "me_export",
    "me_delete",
}
_BY_NAME: list[tuple[set[str], set[int]]] = [
    (REPLYING, {409, 422, 502, 504}),
    (STATELESS, {502, 504}),
    (LIMITED, {429}),
    ({"messages_cancel", "messages_update", "messages_delete", "pins_create"}, {409}),
    ({"revisions_restore", "brief_clear"}, {409}),
    ({"v1_auth_token_create"}, {401}),
    ({"v1_auth_token_destroy"}, {400}),
]


def _error(status: int) -> Schema:
    """The schema of an error. Details are sentences by field, except for limits and upstream errors."""
    sentences = {"type": "array", "items": {"type": "string"}}
    details: Schema = {} if status in (429, 502, 504) else sentences
    error = {
        "type": "object",
        "required": ["code", "message"],
        "properties": {
            "code": {"type": "string", "enum": CODES[status], "description": "Machine-readable code."},
            "message": {"type": "string", "description": "Message for people."},
            "details": {
                "type": "object",
                "additionalProperties": details,
                "description": "What is wrong, by field; or the numbers of a limit.",
            },
        },
        "additionalProperties": False,
    }
    properties = {"error": {**error, "description": "What went wrong."}}
    return {"type": "object", "required": ["error"], "properties": properties, "additionalProperties": False}


def _error_of_openai() -> Schema:
    """The schema of an error in OpenAI's shape, and what is beside it of ours."""
    text = {"type": "string"}
    or_null = {"type": ["string", "null"]}
    properties = {
        "message": {**text, "description": "Message for people."},
        "type": {**text, "description": "OpenAI's kind of error, such as `invalid_request_error`."},
        "param": {**or_null, "description": "The parameter that is wrong."},
        "code": {**or_null, "description": "OpenAI's code."},
        "reason": {**text, "description": "The code that errors have in the rest of this API."},
        "details": {"type": "object", "description": "What is wrong, by field; or the numbers of a limit."},
    }
    error = {
        "type": "object",
        "required": ["message", "type", "param", "code"],
        "properties": properties,
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "required": ["error"],
        "properties": {"error": {**error, "description": "The error."}},
        "additionalProperties": False,
    }


HEADERS: dict[str, Schema] = {
    "RequestID": {
        "description": "The request's id in the logs: its own `X-Request-ID`, or a new one.",
        "required": True,
        "schema": {"type": "string", "pattern": r"^[\w.\-]{8,64}$"},
    },
    "RetryAfter": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 0}},
    "WWWAuthenticate": {"required": True, "schema": {"type": "string", "enum": ["Bearer"]}},
}
WITH_ID = {"X-Request-ID": {"$ref": "#/components/headers/RequestID"}}
_LATER = {"Retry-After": {"$ref": "#/components/headers/RetryAfter"}}
_MORE: dict[int, dict[str, Schema]] = {
    401: {"WWW-Authenticate": {"$ref": "#/components/headers/WWWAuthenticate"}},
    409: _LATER,
    429: _LATER,
    502: _LATER,
    503: _LATER,
}
SCHEMAS: dict[str, Schema] = {
    **{f"Error{status}": _error(status) for status in CODES},
    "OpenAIError": _error_of_openai(),
}
_TYPES = {429: "requests", 500: "server_error", 502: "server_error", 503: "server_error", 504: "server_error"}
_OPENAI_CODES = {401: "invalid_api_key", 404: "model_not_found", 409: "conversation_locked"}


def _response(status: int, schema: str, error: Schema) -> Schema:
    return {
        "description": WHEN[status],
        # A body over the limit is refused before anything else looks at the request.
        "headers": {**({} if status == 413 else WITH_ID), **_MORE.get(status, {})},
        "content": {
            "application/json": {
                "schema": {"$ref": f"#/components/schemas/{schema}"},
                "example": {"error": error},
            }
        },
    }


def _of_openai(status: int) -> Schema:
    return {
        "message": EXAMPLES[status],
        "type": _TYPES.get(status, "invalid_request_error"),
        "param": None,
        "code": _OPENAI_CODES.get(status, CODES[status][0]),
        "reason": CODES[status][0],
    }


RESPONSES: dict[str, Schema] = {
    **{
        f"Error{status}": _response(
            status, f"Error{status}", {"code": CODES[status][0], "message": EXAMPLES[status]}
        )
        for status in CODES
    },
    **{f"OpenAIError{status}": _response(status, "OpenAIError", _of_openai(status)) for status in CODES},
}


def errors_of(path: str, method: str, operation: Schema) -> dict[str, Schema]:
    """The errors of an operation, by status."""
    name, has_body = operation["operationId"], "requestBody" in operation
    found = {406, 500, 503}
    if operation.get("security"):
        found |= {401} if method == "get" else {401, 403}
    if "{" in path or name == "message":
        found.add(404)
    if has_body or any(one["in"] != "path" for one in operation.get("parameters", ())):
        found.add(400)
    if has_body:
        found |= {413, 415}
    for names, statuses in _BY_NAME:
        if name in names:
            found |= statuses
    shape = "OpenAIError" if name in OF_OPENAI else "Error"
    return {str(status): {"$ref": f"#/components/responses/{shape}{status}"} for status in sorted(found)}
