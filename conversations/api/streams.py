"""Read a reply from any position and in any process, as the events of the API.

Replies of this process come from their generation's log as they grow, replies of other processes from their
checkpoints, final ones from their row. Reading never changes anything: a reader that disconnects cancels nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeAlias
from uuid import UUID

from conversations.models import Message
from conversations.replies import events as reply_events
from conversations.replies import generation, sse
from conversations.replies.generation import Generation
from conversations.replies.pollers import PolledReply, Poller, polling

Created: TypeAlias = tuple[UUID, UUID | None, UUID, str, dict[str, Any]]
"""The arguments of `conversations.replies.events.created`."""


async def events(chat_id: UUID, message_id: UUID, after: int = 0) -> AsyncIterator[bytes]:
    """Stream the rest of a reply after `after` code points, up to its final event or to `reconnect`."""
    own = generation.running(message_id)
    if own is not None:
        turn = own.pending
        created = (turn.chat_id, turn.user_message.pk, turn.message_id, turn.variant, turn.context.to_json())
        async for event in _rest(own, after, created):
            yield event
        return
    with polling(chat_id, message_id) as poller:
        while poller.first is None and not poller.done:
            if not await poller.changes.changed(sse.KEEP_ALIVE_SECONDS):
                yield sse.comment()
        if poller.first is None or (poller.done and poller.final is None):
            yield reply_events.reconnect()  # if the chat was deleted, the client learns it on reconnecting
            return
        async for event in _rest(poller, after, _created_of(poller.first)):
            yield event


async def final_message(chat_id: UUID, message_id: UUID) -> Message | None:
    """Wait for the final message. Return None if this process shuts down first, or if the message is gone."""
    own = generation.running(message_id)
    while own is not None and not own.done:
        await own.changes.changed(sse.KEEP_ALIVE_SECONDS)
    if own is not None and own.final is not None:
        return own.final
    with polling(chat_id, message_id) as poller:
        while not poller.done and not generation.is_draining():
            await poller.changes.changed(sse.KEEP_ALIVE_SECONDS)
        if poller.error is not None:
            raise poller.error
        return poller.final


async def texts(chat_id: UUID, message_id: UUID) -> AsyncIterator[str]:
    """Stream the text of a reply until it ends; yield "" whenever nothing has come for `sse.KEEP_ALIVE_SECONDS`."""
    own = generation.running(message_id)
    if own is not None:
        async for text in _text_of(own):
            yield text
        return
    with polling(chat_id, message_id) as poller:
        async for text in _text_of(poller):
            yield text


async def _text_of(source: Generation | Poller) -> AsyncIterator[str]:
    position = 0
    while True:
        if text := source.log.since(position):
            position += len(text)
            yield text
        elif source.done or (generation.is_draining() and isinstance(source, Poller)):
            return
        elif not await source.changes.changed(sse.KEEP_ALIVE_SECONDS):
            yield ""


async def _rest(source: Generation | Poller, position: int, created: Created) -> AsyncIterator[bytes]:
    if position == 0:
        yield reply_events.created(*created)
    while True:
        if text := source.log.since(position):
            event = source.events.delta(text, position)
            position += len(text)
            yield event
        elif source.done:
            yield source.events.ending(source.final)
            return
        elif generation.is_draining():
            yield reply_events.reconnect()
            return
        elif not await source.changes.changed(sse.KEEP_ALIVE_SECONDS):
            yield sse.comment()


def _created_of(found: PolledReply) -> Created:
    if found.active is not None:
        active = found.active
        return active.chat_id, active.user_message_id, active.message_id, active.model_variant, found.context
    assert found.final is not None
    final = found.final
    return final.chat_id, final.reply_to_id, final.pk, final.model_variant, found.context
