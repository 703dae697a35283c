"""A chat's values → our own format: a superset of the `openai` one, which imports again to the same values.

Messages are named by `seq`, their number in the chat from 1.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from chatmemory.llm.attachments import Attachment, json_parts
from chatmemory.runtime.escape import plain_json
from conversations.interchange.values import OWN_FORMAT, ImportedChat, ImportedMessage, ImportedUsage
from memory.pins.section import ImportedPin


def chat_fields(chat: ImportedChat) -> dict[str, object]:
    """Return all of a chat except its messages, as JSON values."""
    return {
        "format": OWN_FORMAT,
        "title": chat.title,
        "title_is_automatic": chat.title_is_automatic,
        "instructions": chat.instructions,
        "policy": chat.policy,
        "options": dict(chat.options),
        "metadata": dict(chat.metadata),
        "created_at": _time(chat.created_at),
        **({} if chat.pins is None else {"pins": [_pin(pin) for pin in chat.pins]}),
    }


def message_fields(message: ImportedMessage, seq: int) -> dict[str, object]:
    """Return one message as JSON values."""
    return {
        "seq": seq,
        "role": message.role,
        "content": message.content,
        **({} if message.payload is None else {"tool": dict(message.payload)}),
        **({"attachments": list(map(_attachment, message.attachments))} if message.attachments else {}),
        "status": message.status,
        "created_at": _time(message.created_at),
        "completed_at": _time(message.completed_at),
        "edited_at": _time(message.edited_at),
        "model_variant": message.model_variant,
        "model": message.model,
        "reply_to": _seq(message.reply_to),
        "superseded_by": _seq(message.superseded_by),
        "usage": _usage(message.usage),
        "error": None if message.error is None else dict(message.error),
        "metadata": dict(message.metadata),
    }


def export_chat_text(chat: ImportedChat, messages: Iterable[ImportedMessage]) -> Iterator[str]:
    """Yield a chat as JSON text in pieces, one line per message. `messages` are read as they are written.

    `chat.messages` is ignored.
    """
    head = json.dumps(chat_fields(chat), ensure_ascii=False, indent=1)
    yield plain_json(head.removesuffix("\n}")) + ',\n "messages": ['
    separator = "\n"
    for seq, message in enumerate(messages, start=1):
        yield separator + "  "
        yield from json_text(message_fields(message, seq))
        separator = ",\n"
    yield "\n ]\n}\n"


def json_text(value: object, default: Callable[[Any], Any] | None = None) -> Iterator[str]:
    """Yield JSON in pieces: images and files are read as they are written, and never in memory whole."""
    for part in json_parts(value, default=default):
        if isinstance(part, Attachment):
            yield from (base64.b64encode(piece).decode("ascii") for piece in part.pieces or ())
        else:
            yield plain_json(part)


def _attachment(attachment: Attachment) -> dict[str, Any]:
    """Return an image or a file with its bytes as base64. Bytes still to be read are the attachment itself."""
    if attachment.pieces is not None:
        return {**attachment.to_json(), "data": attachment}
    if attachment.data is not None:
        return {**attachment.to_json(), "data": base64.b64encode(attachment.data).decode("ascii")}
    return attachment.to_json()


def _pin(pin: ImportedPin) -> dict[str, object]:
    return {
        **asdict(pin),
        "message": _seq(pin.message),
        "created_at": _time(pin.created_at),
        "ended_at": _time(pin.ended_at),
        "ended_by": _seq(pin.ended_by),
    }


def _time(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _seq(index: int | None) -> int | None:
    return None if index is None else index + 1


def _usage(usage: ImportedUsage | None) -> dict[str, object] | None:
    if usage is None:
        return None
    return {**asdict(usage), "cost_usd": None if usage.cost_usd is None else float(usage.cost_usd)}
