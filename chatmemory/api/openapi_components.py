"""Components of the schema that drf-spectacular does not know: errors, and the events of a stream.

Pure: takes values of the schema and returns values. The schema of `text/event-stream` describes one event;
`contentSchema` describes the JSON in its text. The errors of an operation follow from its parameters, its body and
its security; a test compares the codes with those of `chatmemory.errors`.
"""

from typing import Any

Schema = dict[str, Any]

ENDINGS = ("incomplete", "failed", "cancelled")
"""How a reply ends if it is not complete."""


def _text(description: str, **more: Any) -> Schema:
    return {"type": "string", **more, "description": description}


def _count(description: str) -> Schema:
    return {"type": "integer", "minimum": 0, "description": description}


def _ref(name: str, description: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}", "description": description}


def _object(**properties: Schema) -> Schema:
    """The schema of an object with exactly these properties."""
    return {
        "type": "object",
        "required": list(properties),
        "properties": properties,
        "additionalProperties": False,
    }


MEANINGS = {
    "message.created": "The reply has begun: its ids, and what its prompt is made of.",
    "memory.updated": "The chat's memory has a new version since the prompt of the reply before. Only on request; a "
    "stream that is resumed tells it again.",
    "content.delta": "The next piece of the reply. All pieces joined are its content.",
    "message.completed": "The reply is complete and stored.",
    "message.incomplete": "The reply was cut off. The partial reply is saved.",
    "message.failed": "There is no usable reply.",
    "message.cancelled": "Somebody stopped the reply. The partial reply is saved.",
    "reconnect": "This server is about to stop, or the reply cannot be stored yet: come back with `Last-Event-ID`.",
}
"""The description of each event."""


def _event(name: str, data: Schema, **more: Schema) -> Schema:
    kind = _text("The event's name.", const=name)
    line = _text("One line of JSON.", contentMediaType="application/json", contentSchema=data)
    return {"description": MEANINGS[name], **_object(event=kind, data=line, **more)}


_CREATED = _object(
    chat_id=_text("The chat's id.", format="uuid"),
    user_message_id=_text("The id of the user's message.", type=["string", "null"], format="uuid"),
    message_id=_text("The id of the reply.", format="uuid"),
    model_variant=_text("The name of the model that answers."),
    context={
        **_object(
            tokens=_count("Tokens of memory in the prompt."),
            budget=_count("Tokens that memory may have."),
            sections={
                "type": "array",
                "description": "The parts of the prompt.",
                "items": _object(kind=_text("Which part."), tokens=_count("Its tokens.")),
            },
        ),
        "description": "What the prompt is made of.",
    },
)


_MEMORY_UPDATED = _object(
    version=_count("The number of the version."),
    kind=_text("What made it, as in the list of versions: `fold`, `rebuild` and others."),
    turns=_count("Turns that were summarized into it."),
    from_seq=_count("The first message that was summarized into it."),
    through_seq=_count("The last one; before `from_seq` if none was."),
    tokens_before=_count("Tokens that it was made from: the memory before, and the messages."),
    tokens_after=_count("Tokens of the memory after it."),
    counted_with=_text("The encoding that all our tokens are counted with."),
    kept_count=_count("How many numbers, ids and names of those messages it kept, of at most 200."),
    lost_count=_count("How many it did not keep, of at most 200."),
    degraded={"type": "boolean", "description": "Whether the built-in summarizer made it."},
    links={
        **_object(chat=_text("Of the chat."), difference=_text("Of what changed from its parent to it.")),
        "description": "Paths on this server.",
    },
    lost={"type": "array", "items": {"type": "string"}, "description": "What it did not keep."},
)


def _stream(created: Schema, message: str, endings: tuple[str, ...], **position: Schema) -> Schema:
    """The schema of one event of a stream. `position` is the `id` of events from which a stream can be resumed."""
    final = _ref(message, "The reply as it is stored.")
    error = _ref("ReplyErrorOut", "Why it did not complete.")
    later = _object(retry_ms=_count("Milliseconds to wait before."))
    later["properties"]["error"] = _ref("ReplyErrorOut", "Only if it is not stored yet.")
    updated, reconnect = _event("memory.updated", _MEMORY_UPDATED), _event("reconnect", later)
    for without in (updated, reconnect):  # parsers of events give it the `id` of the one before
        without["properties"] |= position
    return {
        "oneOf": [
            _event("message.created", created),
            *((updated,) if position else ()),
            _event("content.delta", _object(delta=_text("Text.")), **position),
            _event("message.completed", _object(message=final), **position),
            *(
                _event(f"message.{ending}", _object(message=final, error=error), **position)
                for ending in endings
            ),
            reconnect,
        ]
    }


EVENTS: dict[str, Schema] = {
    "ReplyEvent": _stream(
        _CREATED,
        "MessageOut",
        ENDINGS,
        id=_text(
            "Code points of the reply sent so far: come back with it as `Last-Event-ID`.", pattern="^[0-9]+$"
        ),
    ),
    "AnswerEvent": _stream(
        _object(model_variant=_CREATED["properties"]["model_variant"]), "AnswerOut", ENDINGS[:2]
    ),
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
REPLYING = {"message", "message_first", "messages_create", "messages_regenerate", "completions_create"}
"""Operations that make a reply in a chat."""
STATELESS = {"ask", "summarize"}
OF_OPENAI = {"completions_create", "models_read"}
"""Operations whose errors have OpenAI's shape."""
REBUILDING = {"resummarize", "chats_update", "revisions_restore", "brief_resume", "brief_clear"}
"""Operations that rebuild a chat's memory."""
_BY_NAME: list[tuple[set[str], set[int]]] = [
    (REPLYING, {409, 422, 429, 502, 504}),
    (STATELESS, {429, 502, 504}),
    (REBUILDING | {"messages_stream", "me_export", "users_export", "me_delete", "chats_import"}, {429}),
    ({"messages_cancel", "messages_update", "messages_delete", "pins_create"}, {409}),
    ({"revisions_restore", "brief_clear", "chats_delete_many"}, {409}),
    ({"webhook_read", "chats_list", "chats_delete_many"}, {404}),
    ({"v1_auth_token_create"}, {401, 429}),
    ({"v1_auth_token_destroy"}, {400}),
]


def _error(status: int) -> Schema:
    """The schema of an error. Details are sentences by field, except for limits and upstream errors."""
    details: Schema = {} if status in (429, 502, 504) else {"type": "array", "items": {"type": "string"}}
    error = _object(
        code=_text("Machine-readable code.", enum=list(ERRORS[status][0])),
        message=_text("Message for people."),
        details={
            "type": "object",
            "additionalProperties": details,
            "description": "What is wrong, by field; or the numbers of a limit.",
        },
    )
    return _object(error={**error, "required": ["code", "message"], "description": "What went wrong."})


def _error_of_openai() -> Schema:
    """The schema of an error in OpenAI's shape, and what is beside it of ours."""
    error = _object(
        message=_text("Message for people."),
        type=_text("OpenAI's kind of error, such as `invalid_request_error`."),
        param=_text("The parameter that is wrong.", type=["string", "null"]),
        code=_text("OpenAI's code.", type=["string", "null"]),
        reason=_text("The code that errors have in the rest of this API."),
        details={"type": "object", "description": "What is wrong, by field; or the numbers of a limit."},
    )
    required = ["message", "type", "param", "code"]
    return _object(error={**error, "required": required, "description": "The error."})


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
    **EVENTS,
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
    found = {406, 500, 503}
    if operation.get("security"):
        found |= {400, 401, 403}  # the header that names an end user may be wrong anywhere
    if "{" in path or name in ("message", "completions_create"):  # which name a chat, or a model
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
