"""The events of a stream as the schema tells them: what each is called, and what JSON its `data` holds.

The schema of `text/event-stream` describes one event; `contentSchema` what is inside of its text.
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
"""How a reply ends that is not complete."""


def _object(**properties: Schema) -> Schema:
    """An object with exactly these properties."""
    return {
        "type": "object",
        "required": list(properties),
        "properties": properties,
        "additionalProperties": False,
    }


def _event(name: str, data: Schema, **more: Schema) -> Schema:
    inside = {"type": "string", "contentMediaType": "application/json", "contentSchema": data}
    return _object(event={"type": "string", "const": name}, data=inside, **more)


_CREATED = _object(
    chat_id=_UUID,
    user_message_id={"type": ["string", "null"], "format": "uuid"},
    message_id=_UUID,
    model_variant={"type": "string"},
    context=_object(
        tokens=_COUNT,
        budget=_COUNT,
        sections={"type": "array", "items": _object(kind={"type": "string"}, tokens=_COUNT)},
    ),
)


def _stream(created: Schema, message: str, endings: tuple[str, ...], **position: Schema) -> Schema:
    """One event of a reply. `position`: the `id` of what can be resumed."""
    final = {"$ref": f"#/components/schemas/{message}"}
    return {
        "oneOf": [
            _event("message.created", created),
            _event("content.delta", _object(delta={"type": "string"}), **position),
            _event("message.completed", _object(message=final), **position),
            *(
                _event(f"message.{ending}", _object(message=final, error=_ERROR), **position)
                for ending in endings
            ),
            _event("reconnect", _object(retry_ms=_COUNT)),
        ]
    }


SCHEMAS: dict[str, Schema] = {
    "ReplyEvent": _stream(_CREATED, "MessageOut", ENDINGS, id=_POSITION),
    "AnswerEvent": _stream(_object(model_variant={"type": "string"}), "AnswerOut", ENDINGS[:2]),
}
