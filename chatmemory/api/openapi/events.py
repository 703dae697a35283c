"""The events of a stream in the schema: their names, and the JSON in `data`.

The schema of `text/event-stream` describes one event; `contentSchema` describes the JSON in its text.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_UUID: Schema = {"type": "string", "format": "uuid"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_POSITION: Schema = {
    "type": "string",
    "pattern": "^[0-9]+$",
    "description": "Code points of the reply sent so far: come back with it as `Last-Event-ID`.",
}
_ERROR: Schema = {"$ref": "#/components/schemas/ReplyErrorOut"}
ENDINGS = ("incomplete", "failed", "cancelled")
"""How a reply ends if it is not complete."""


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
    "content.delta": "The next piece of the reply. All pieces joined are its content.",
    "message.completed": "The reply is complete and stored.",
    "message.incomplete": "The reply was cut off. The partial reply is saved.",
    "message.failed": "There is no usable reply.",
    "message.cancelled": "Somebody stopped the reply. The partial reply is saved.",
    "reconnect": "This server is about to stop: come back with `Last-Event-ID`.",
}
"""The description of each event."""


def _event(name: str, data: Schema, **more: Schema) -> Schema:
    inside = {
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": data,
        "description": "One line of JSON.",
    }
    kind = {"type": "string", "const": name, "description": "The event's name."}
    return {"description": MEANINGS[name], **_object(event=kind, data=inside, **more)}


_CREATED = _object(
    chat_id={**_UUID, "description": "The chat's id."},
    user_message_id={
        "type": ["string", "null"],
        "format": "uuid",
        "description": "The id of the user's message.",
    },
    message_id={**_UUID, "description": "The id of the reply."},
    model_variant={"type": "string", "description": "The name of the model that answers."},
    context={
        **_object(
            tokens={**_COUNT, "description": "Tokens of memory in the prompt."},
            budget={**_COUNT, "description": "Tokens that memory may have."},
            sections={
                "type": "array",
                "description": "The parts of the prompt.",
                "items": _object(
                    kind={"type": "string", "description": "Which part."},
                    tokens={**_COUNT, "description": "Its tokens."},
                ),
            },
        ),
        "description": "What the prompt is made of.",
    },
)


def _stream(created: Schema, message: str, endings: tuple[str, ...], **position: Schema) -> Schema:
    """The schema of one event of a stream. `position` is the `id` of events from which a stream can be resumed."""
    final = {"$ref": f"#/components/schemas/{message}", "description": "The reply as it is stored."}
    delta = {"type": "string", "description": "Text."}
    error = {**_ERROR, "description": "Why it did not complete."}
    retry = {**_COUNT, "description": "Milliseconds to wait before."}
    return {
        "oneOf": [
            _event("message.created", created),
            _event("content.delta", _object(delta=delta), **position),
            _event("message.completed", _object(message=final), **position),
            *(
                _event(f"message.{ending}", _object(message=final, error=error), **position)
                for ending in endings
            ),
            _event("reconnect", _object(retry_ms=retry)),
        ]
    }


SCHEMAS: dict[str, Schema] = {
    "ReplyEvent": _stream(_CREATED, "MessageOut", ENDINGS, id=_POSITION),
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
