"""JSON of messages and of their usage, as in the API."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from chatmemory.llm.attachments import attachments_in
from chatmemory.llm.protocol import Usage
from conversations.models import STREAMING, ActiveReply, Message, Role


def iso(moment: Any) -> str | None:
    """Format a time as ISO 8601 in UTC, as DRF does."""
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def message_json(message: Message) -> dict[str, Any]:
    """Return a final message as the API shows it."""
    return {
        "id": str(message.pk),
        "chat_id": str(message.chat_id),
        "seq": message.seq,
        "role": message.role,
        "content": message.content,
        "status": message.status,
        "model_variant": message.model_variant or None,
        "model": message.model or None,
        "token_count": message.token_count,
        "reply_to": _id(message.reply_to_id),
        "superseded_by": _id(message.superseded_by_id),
        "is_first": message.seq == 1,
        "created_at": iso(message.created_at),
        "completed_at": iso(message.completed_at),
        "edited_at": iso(message.edited_at),
        "usage": message.usage,
        "error": message.error,
        "metadata": message.metadata,
        **_tool_call(message),
        **_attachments(message),
    }


def streaming_json(active: ActiveReply, last_seq: int) -> dict[str, Any]:
    """Return a reply being written as a message with status `streaming` and the text of its last checkpoint."""
    return {
        "id": str(active.message_id),
        "chat_id": str(active.chat_id),
        "seq": last_seq + 1,
        "role": Role.ASSISTANT.value,
        "content": active.text,
        "status": STREAMING,
        "model_variant": active.model_variant,
        "model": active.model,
        "token_count": 0,
        "reply_to": _id(active.user_message_id),
        "superseded_by": None,
        "is_first": False,
        "created_at": iso(active.started_at),
        "completed_at": None,
        "edited_at": None,
        "usage": None,
        "error": None,
        "metadata": active.metadata,
    }


def _tool_call(message: Message) -> dict[str, Any]:
    """Return the id, name and arguments of a call, the id and name of an output's call; nothing for other messages."""
    payload = message.payload or {}
    if "call_id" not in payload:
        return {}
    told = {name: payload[key] for name, key in _CALL.items() if key in payload}
    return {"tool_call": told}


_CALL = {"id": "call_id", "name": "name", "arguments": "arguments", "custom": "custom"}


def _attachments(message: Message) -> dict[str, Any]:
    found = [one.to_json() for one in attachments_in(message.payload)]
    return {"attachments": found} if found else {}


def _id(value: Any) -> str | None:
    return None if value is None else str(value)


def usage_json(usage: Usage | None, cost_usd: Decimal | None) -> dict[str, Any] | None:
    """Return tokens and USD as the API shows them, or None if the upstream reported none."""
    if usage is None:
        return None
    return {
        "input_tokens": usage.input_tokens,
        "cached_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": None if cost_usd is None else float(cost_usd.quantize(Decimal("1E-9"))),
    }
