"""Reading a reply, from any position and in any process, as the events of the API.

This process's own replies come from the generation's log as they grow; another process's from its checkpoints; final
ones from their row. Reading never changes anything: a reader that leaves cancels nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings

from chatmemory import db
from conversations import generation, sse
from conversations.generation import Generation
from conversations.models import ActiveReply, Message
from conversations.serializers import message_json
from memory import services as memory

KEEP_ALIVE_SECONDS = 15.0
RETRY_MS = 1000

_FINAL_EVENTS = {
    "complete": "message.completed",
    "incomplete": "message.incomplete",
    "failed": "message.failed",
    "cancelled": "message.cancelled",
    "deleted": "message.failed",
}


@dataclass(frozen=True, slots=True)
class Found:
    """A reply as the database has it: still active with the text of its last checkpoint, final, or gone (both None)."""

    active: ActiveReply | None
    final: Message | None
    context: dict[str, Any]


async def events(chat_id: UUID, message_id: UUID, after: int = 0) -> AsyncIterator[bytes]:
    """The rest of a reply after `after` code points, up to its final event, or to `reconnect`."""
    own = generation.running(message_id)
    if own is not None:
        async for event in _own(own, after):
            yield event
    else:
        async for event in _stored(chat_id, message_id, after):
            yield event


async def final(chat_id: UUID, message_id: UUID) -> Message | None:
    """Wait for the final message. None if this process is going away first, or the message is gone."""
    own = generation.running(message_id)
    while own is not None and not own.done:
        await own.changed(KEEP_ALIVE_SECONDS)
    if own is not None and own.final is not None:
        return own.final
    while not generation.is_draining():
        found = await db.read(find, chat_id, message_id)
        if found.active is None:
            return found.final
        await asyncio.sleep(settings.REPLY_CHECKPOINT_SECONDS)
    return None


def find(chat_id: UUID, message_id: UUID) -> Found:
    """The reply's row: the active one if there is one, else the final one."""
    active = ActiveReply.objects.filter(chat_id=chat_id, message_id=message_id).first()
    if active is not None:
        return Found(active, None, active.context)
    message = Message.objects.filter(chat_id=chat_id, pk=message_id).first()
    return Found(None, message, memory.outline_of(message_id))


async def _own(own: Generation, position: int) -> AsyncIterator[bytes]:
    if position == 0:
        turn = own.pending
        yield _created(turn.chat_id, turn.user_message.pk, turn.message_id, turn.variant, turn.context)
    while True:
        if text := own.log.since(position):
            position += len(text)
            yield sse.event("content.delta", {"delta": text}, position)
        elif own.done:
            yield _final(own.final) if own.final else _reconnect()
            return
        elif generation.is_draining():
            yield _reconnect()
            return
        elif not await own.changed(KEEP_ALIVE_SECONDS):
            yield sse.comment()


async def _stored(chat_id: UUID, message_id: UUID, position: int) -> AsyncIterator[bytes]:
    created = position > 0
    silent = 0.0
    while True:
        found = await db.read(find, chat_id, message_id)
        reply = found.active or found.final
        if reply is None:  # its chat was deleted: whoever comes back is told so
            yield _reconnect()
            return
        if not created:
            created = True
            yield _created_of(found)
        text = found.active.text if found.active else found.final.content if found.final else ""
        if len(text) > position:
            delta, position, silent = text[position:], len(text), 0.0
            yield sse.event("content.delta", {"delta": delta}, position)
        if found.final is not None:
            yield _final(found.final)
            return
        if generation.is_draining():
            yield _reconnect()
            return
        if silent >= KEEP_ALIVE_SECONDS:
            silent = 0.0
            yield sse.comment()
        await asyncio.sleep(settings.REPLY_CHECKPOINT_SECONDS)
        silent += settings.REPLY_CHECKPOINT_SECONDS


def _created_of(found: Found) -> bytes:
    if found.active is not None:
        active = found.active
        return _created(
            active.chat_id, active.user_message_id, active.message_id, active.model_variant, found.context
        )
    assert found.final is not None
    return _created(
        found.final.chat_id, found.final.reply_to_id, found.final.pk, found.final.model_variant, found.context
    )


def _created(
    chat_id: UUID, user_message_id: UUID | None, message_id: UUID, variant: str, context: dict[str, Any]
) -> bytes:
    data = {
        "chat_id": str(chat_id),
        "user_message_id": None if user_message_id is None else str(user_message_id),
        "message_id": str(message_id),
        "model_variant": variant,
        "context": {
            "tokens": context.get("tokens", 0),
            "budget": context.get("budget", 0),
            "sections": [{"kind": s["kind"], "tokens": s["tokens"]} for s in context.get("sections", [])],
        },
    }
    return sse.event("message.created", data)


def _final(message: Message) -> bytes:
    """The final event. Where a crash lost text that a client already had, its `content` is the truth."""
    data: dict[str, Any] = {"message": message_json(message)}
    if message.status != "complete":
        data["error"] = message.error or {
            "code": message.status,
            "message": f"The reply was {message.status}.",
        }
    return sse.event(_FINAL_EVENTS[message.status], data, len(message.content))


def _reconnect() -> bytes:
    return sse.event("reconnect", {"retry_ms": RETRY_MS})
