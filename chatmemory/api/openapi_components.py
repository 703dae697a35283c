"""Components of the schema that drf-spectacular does not know: errors, and the example of a stream.

Pure: takes values of the schema and returns values. The errors of an operation follow from its parameters, its body and
its security; a test compares the codes with those of `chatmemory.errors`.
"""

from typing import Any

Schema = dict[str, Any]


def _text(description: str, **more: object) -> Schema:
    return {"type": "string", **more, "description": description}


def closed_object(**properties: Schema) -> Schema:
    """The schema of an object with exactly these properties."""
    return {
        "type": "object",
        "required": list(properties),
        "properties": properties,
        "additionalProperties": False,
    }


EXAMPLE = """\
event: message.created
data: {"chat_id":"019ab1c2-7d40-7000-8000-00000000c4a7","user_message_id":"019ab1c2-7d40-7000-8000-000000000001",\
"message_id":"019ab1c2-7d40-7000-8000-000000000002","model_variant":"arco","context":{"tokens":1057,"budget":3000,\
"sections":[{"kind":"summary","tokens":450},{"kind":"window","tokens":607}]}}

event: content.delta
id: 5
data: {"delta":"Your "}

event: content.delta
id: 37
data: {"delta":"order AB-1234 was sent on 4 May."}

event: message.completed
id: 37
data: {"message":{"id":"019ab1c2-7d40-7000-8000-000000000002","status":"complete",\
"content":"Your order AB-1234 was sent on 4 May."}}

"""
"""An example of a stream. The message in its last event is shortened."""


ERRORS: dict[int, tuple[tuple[str, ...], str]] = {
    400: (("invalid_request",), "The request is not valid."),
    401: (
        ("not_authenticated", "invalid_credentials"),
        "The token is missing or invalid, or the password is wrong.",
    ),
    403: (("permission_denied",), "The token may not do this, or the session's CSRF token is missing."),
    404: (("not_found",), "It does not exist, or it belongs to another user."),
    406: (("not_acceptable",), "None of the media types in `Accept` is available."),
    409: (
        ("chat_busy", "conflict"),
        "A reply is being written in this chat, or has already ended; or what was to be changed has changed.",
    ),
    413: (("too_large",), "The body is too large."),
    415: (("unsupported_media_type",), "The body is not JSON."),
    422: (("idempotency_mismatch",), "The `Idempotency-Key` was used with a different request."),
    429: (("rate_limited", "quota_exceeded"), "A rate limit or the daily token quota is reached."),
    500: (("internal",), "An unexpected error of the server. It has been logged."),
    502: (("upstream_error",), "The model provider returned no usable response."),
    503: (("unavailable",), "The server is not ready, or is shutting down."),
    504: (("upstream_timeout",), "The model provider did not respond in time."),
}
"""The codes of an error, and what it says, by status."""
COMPLETING = {"completions_create", "responses_create"}
REPLYING = {"message", "message_first", "messages_create", "messages_regenerate"} | COMPLETING
"""Operations that make a reply in a chat."""
STATELESS = {"ask", "summarize", "embeddings_create"}
REBUILDING = {"resummarize", "chats_update", "revisions_restore", "brief_resume", "brief_clear"}
"""Operations that rebuild a chat's memory."""
_BY_NAME: list[tuple[set[str], set[int]]] = [
    (REPLYING, {409, 422, 429, 502, 504}),
    (STATELESS, {429, 502, 504}),
    (
        REBUILDING | {"messages_stream", "responses_read", "me_export", "users_export", "me_delete", "chats_import"},
        {429},
    ),
    ({"messages_cancel", "responses_cancel", "messages_update", "messages_delete", "pins_create"}, {409}),
    ({"messages_deletion", "revisions_restore", "brief_clear", "chats_delete_many", "pins_update"}, {409}),
    ({"webhook_read", "chats_list", "chats_delete_many"}, {404}),
    ({"v1_auth_token_create"}, {401, 429}),
    ({"v1_auth_token_destroy"}, {400}),
]


def _error(status: int) -> Schema:
    """The schema of an error. Details are sentences by field, except for limits and upstream errors."""
    details: Schema = {} if status in (429, 502, 504) else {"type": "array", "items": {"type": "string"}}
    error = closed_object(
        code=_text("Machine-readable code.", enum=list(ERRORS[status][0])),
        message=_text("Message for people."),
        details={
            "type": "object",
            "additionalProperties": details,
            "description": "The errors by field, or the numbers of a limit.",
        },
    )
    return closed_object(error={**error, "required": ["code", "message"], "description": "What went wrong."})


def _error_of_openai() -> Schema:
    """The schema of an error in OpenAI's shape, with our own fields beside it."""
    error = closed_object(
        message=_text("Message for people."),
        type=_text("OpenAI's kind of error, such as `invalid_request_error`."),
        param=_text("The parameter that is wrong.", type=["string", "null"]),
        code=_text("OpenAI's code.", type=["string", "null"]),
        reason=_text("The code that errors have in the rest of this API."),
        details={"type": "object", "description": "The errors by field, or the numbers of a limit."},
    )
    required = ["message", "type", "param", "code"]
    return closed_object(error={**error, "required": required, "description": "The error."})


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
    **{f"Error{status}": _error(status) for status in ERRORS},
    "OpenAIError": _error_of_openai(),
}
RESPONSES: dict[str, Schema] = {
    f"{prefix}Error{status}": {
        "description": meaning,
        # A body over the limit is refused before anything else looks at the request.
        "headers": {**({} if status == 413 else WITH_ID), **_MORE.get(status, {})},
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
    }
    for status, (_, meaning) in ERRORS.items()
    for prefix, schema in (("", f"Error{status}"), ("OpenAI", "OpenAIError"))
}


def errors_of(path: str, operation: Schema) -> dict[str, Schema]:
    """The errors of an operation, by status."""
    name, has_body = operation["operationId"], "requestBody" in operation
    statuses = {406, 500, 503}
    if operation.get("security"):
        statuses |= {400, 401, 403}  # the header that names an end user may be wrong anywhere
    if "{" in path or name in {"message", "embeddings_create", *COMPLETING}:  # which name a chat, or a model
        statuses.add(404)
    if has_body or any(one["in"] != "path" for one in operation.get("parameters", ())):
        statuses.add(400)
    if has_body:
        statuses |= {413, 415}
    for names, more in _BY_NAME:
        if name in names:
            statuses |= more
    shape = "OpenAIError" if "openai" in operation["tags"] else "Error"
    return {str(status): {"$ref": f"#/components/responses/{shape}{status}"} for status in sorted(statuses)}
