"""Read a reply from any position, in any process: its text, its calls of tools, and why it ended. Changes nothing.

Replies of this process come from their generation as they grow, final ones from their row, and those of other
processes from their checkpoints, by one poller per reply and process for any number of readers. A poller reads the
last checkpoint about as often as one is stored, less often while the database is slow, and wakes its readers when
there is more. It ends with the reply, or with its last reader.

How many readers a user may have is counted only in this process: reading writes nothing, so there is no row to count
in, and the purpose is to limit this process's own work. The reader that begins a turn is not counted; the limit on
simultaneous replies covers those.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from typing import Self
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.db.models import Q
from django.db.models.functions import Now, Substr
from django.http import StreamingHttpResponse

from chatmemory import metrics
from chatmemory.database import executors
from chatmemory.database.owned import ChatKey
from chatmemory.errors import NotFound, Unavailable
from chatmemory.llm.protocol import ReplyError, ToolCall
from chatmemory.runtime import fault_points
from conversations.accounts import quotas
from conversations.models import ActiveReply, Message
from conversations.replies import events, generation
from conversations.replies.generation import Generation, GrowingReply, TurnReply, UnstoredReply
from conversations.replies.open_turn import calls_of
from conversations.replies.reply import NO_ANSWER, BegunTurn, ExistingReply, ReplyHead
from conversations.replies.serializers import created_json
from memory import events as memory_events
from memory.context.build import stored_snapshot

logger = logging.getLogger(__name__)

MIN_PAUSE_FACTOR = 4
"""Minimum pause as a multiple of the time that the last poll took: polling takes at most a fifth of a thread."""
GIVE_UP_SECONDS = 25.0
"""Seconds without an answer of the database after which readers are sent away."""


def find(chat: ChatKey, message_id: UUID) -> ReplyHead:
    """Return the head of a reply, active or final. Raises `NotFound`, also for a message that is no reply."""
    active = ActiveReply.objects.filter(**chat.columns, message_id=message_id).defer("text").first()
    final = Message.objects.filter(**chat.columns, pk=message_id, role="assistant")
    reply = active or final.only("reply_to", "model_variant", "owner_id").first()
    if reply is None:
        raise NotFound("This chat has no such reply.")
    question = reply.user_message_id if isinstance(reply, ActiveReply) else reply.reply_to_id
    return ReplyHead(chat, question, message_id, reply.model_variant, stored_snapshot(reply))


def text_after(chat: ChatKey, message_id: UUID, position: int) -> tuple[str, bool] | None:
    """Return the last checkpoint's text after `position`, and whether the lease ended so long ago that every server has
    tried to finish the reply; None if it is no longer being written.
    """
    tried = Q(lease_expires_at__lt=Now() - 2 * timedelta(seconds=settings.REPLY_LEASE_SECONDS))
    active = ActiveReply.objects.filter(**chat.columns, message_id=message_id).annotate(tried=tried)
    return active.values_list(Substr("text", position + 1), "tried").first()


def reply_of(chat: ChatKey, message_id: UUID) -> GrowingReply:
    """Return a reply of any process, to be entered at once by the reader that asks for it."""
    key = chat, message_id
    return generation.running(message_id) or _pollers.get(key) or Poller(key)


async def texts_of(reply: GrowingReply, after: int = 0, *, stays: bool = True) -> AsyncIterator[str]:
    """Yield the text after `after` code points as it grows; "" whenever `events.KEEP_ALIVE_SECONDS` brought nothing.

    It ends with the reply, or when this process shuts down: with `stays`, only if another one writes the reply.
    """
    stays = stays and isinstance(reply, Generation)
    while True:
        if text := reply.text[after:]:
            after += len(text)
            yield text
        elif reply.done or reply.error or (generation.is_draining() and not stays):
            return
        else:
            await reply.changes.wait(events.KEEP_ALIVE_SECONDS)
            if reply.changes.is_silent and len(reply.text) <= after:
                yield ""


async def final_of(reply: GrowingReply) -> Message:
    """Wait for the final message. Raises `NotFound` if its chat was deleted, `Unavailable` at a shutdown, and while the
    reply cannot be stored.
    """
    while not (reply.done or reply.error) and (isinstance(reply, Generation) or not generation.is_draining()):
        await reply.changes.wait(events.KEEP_ALIVE_SECONDS)
    if reply.error is not None:
        raise reply.error
    if reply.final is None and isinstance(reply, TurnReply):  # another process finished it
        key = reply.pending.chat_key, reply.pending.message_id
        with _pollers.get(key) or Poller(key) as elsewhere:
            return await final_of(elsewhere)
    if reply.final is not None:
        return reply.final
    if not generation.is_draining():
        raise NotFound("The chat was deleted while the reply was being written.")
    ids = (reply.key[0].id, reply.key[1]) if isinstance(reply, Poller) else ()
    raise Unavailable(
        "This server is restarting; the reply continues. Fetch the message in a moment.",
        details={name: [str(one)] for name, one in zip(("chat_id", "message_id"), ids, strict=False)},
        retry_after=1,
    )


def failure_of(reply: GrowingReply, final: Message) -> ReplyError:
    """Return why a reply that ended is not complete."""
    stored = final.error or {}
    return reply.failure or ReplyError(stored.get("code", NO_ANSWER.code), stored.get("message") or NO_ANSWER.message)


async def tool_calls_of(reply: GrowingReply, final: Message) -> Sequence[ToolCall]:
    """Return the tool calls of a reply that ended; queried only if there are any."""
    if isinstance(reply, UnstoredReply):
        return reply.calls
    return await executors.read(calls_of, final) if final.payload else ()


async def reply_events(head: ReplyHead, after: int = 0, *, with_memory: bool = False) -> AsyncIterator[bytes]:
    """Stream a reply after `after` code points as events of the API, up to its final event or to `reconnect`.

    With `with_memory`, versions of the chat's memory that are new since the prompt before it are sent, too: at the
    beginning, and at the end those of the meantime.
    """
    known = set[int]()
    with reply_of(head.chat, head.message_id) as reply:
        if after == 0:
            yield events.event("message.created", created_json(head))
        for version in await _new_versions(head, known) if with_memory else ():
            yield version
        async for text in texts_of(reply, after, stays=False):
            after += len(text)
            yield events.event("content.delta", {"delta": text}, after) if text else events.KEEP_ALIVE
        for version in await _new_versions(head, known) if with_memory else ():
            yield version
        # If the chat was deleted, the client learns it on reconnecting.
        yield events.final(reply.final) if reply.final else events.reconnect(reply.error)


async def _new_versions(head: ReplyHead, known: set[int]) -> list[bytes]:
    """Return an event for each version that is not `known`, and add it; none while the database is away."""
    try:
        versions = await executors.read(memory_events.since_last_prompt, head.chat, head.message_id)
    except (DatabaseError, InterfaceError):
        return []
    new = [one for one in versions if one.version not in known]
    known.update(one.version for one in new)
    return [events.event("memory.updated", memory_events.MemoryUpdatedOut(one).data) for one in new]


class Poller(GrowingReply):
    """One reply of another process, as far as it has been read here."""

    def __init__(self, key: tuple[ChatKey, UUID]) -> None:
        super().__init__()
        self.key = key
        self._readers = 0
        self._task: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        self._readers += 1
        if self._task is None:
            _pollers[self.key] = self
            self._task = asyncio.get_running_loop().create_task(self._run(), context=contextvars.Context())
        return self

    def __exit__(self, *_: object) -> None:
        """Remove a reader. The poller ends with the last one."""
        self._readers -= 1
        if not self._readers and self._task is not None:
            self._forget()
            self._task.cancel()
            self.changes.close()

    async def _run(self) -> None:
        answered = time.monotonic()
        try:
            while not self.done:
                began = time.monotonic()
                try:
                    await self._read()
                    answered = time.monotonic()
                except (DatabaseError, InterfaceError):
                    if generation.is_draining() or time.monotonic() - answered > GIVE_UP_SECONDS:
                        raise
                if not self.done:  # never less than the time between two checkpoints
                    pause = MIN_PAUSE_FACTOR * (time.monotonic() - began)
                    await asyncio.sleep(max(settings.REPLY_CHECKPOINT_SECONDS, pause))
        except Exception as exc:  # passed on to its readers, who would otherwise wait forever
            self.error, self.done = exc, True
            logger.error("reply not read", exc_info=exc, extra={"reply": str(self.key[1])})
        finally:
            self._forget()
            self.changes.close()

    def _forget(self) -> None:
        """Unregister, so that later readers get a new poller."""
        if _pollers.get(self.key) is self:
            del _pollers[self.key]

    async def _read(self) -> None:
        """Read new text, and wake the readers if there is any."""
        chat, message_id = self.key
        text, tried = await executors.read(text_after, chat, message_id, len(self.text)) or (None, False)
        if tried:
            raise generation.unstored(chat.id, message_id)
        if text is None:
            final = Message.objects.filter(**chat.columns, pk=message_id)
            self.final, self.done = await executors.read(final.first), True
            text = self.final.content[len(self.text) :] if self.final is not None else ""
        if text:
            self.text += text
            self.changes.wake()


_pollers: dict[tuple[ChatKey, UUID], Poller] = {}


class ReaderSlot(quotas.Slot):
    """One reader. `StreamingHttpResponse` closes what it iterates over: that is the slot, with the `pieces` to read."""

    pieces: AsyncIterator[bytes]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.pieces


def take_slot(user_id: int) -> ReaderSlot:
    """Return a slot for one more reader of that user. Raises `RateLimited` if no more are allowed."""
    quotas.hold(slot := ReaderSlot("readers", user_id), quotas.readers_allowed(user_id))
    return slot


async def open_reader(user_id: int, turn: BegunTurn | ExistingReply) -> tuple[ReplyHead, ReaderSlot | None]:
    """Start the reply of a turn that was begun, or take a slot for one more reader of one that exists; return its head.

    Raises as `find` and `take_slot` do.
    """
    if isinstance(turn, BegunTurn):
        fault_points.point("begin.committed")
        generation.start(turn)
        return turn.pending.head, None
    return await executors.read(lambda: (find(turn.chat, turn.message_id), take_slot(user_id)))


EVENTS = "text/event-stream"
HEADERS = {
    "Cache-Control": "no-store, no-transform",
    "X-Accel-Buffering": "no",
    # Compressing middleware would cut a stream into members that clients do not join.
    "Content-Encoding": "identity",
}


async def _counted(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    with metrics.OPEN_STREAMS.track_inprogress():
        async for piece in pieces:
            yield piece


def streamed(
    pieces: AsyncIterator[bytes],
    slot: ReaderSlot | None = None,
    content_type: str = EVENTS,
    headers: Mapping[str, str] = HEADERS,
) -> StreamingHttpResponse:
    """Return a response that streams `pieces`, by default events, and holds `slot` until it ends."""
    if content_type == EVENTS:
        pieces = _counted(pieces)
    if slot is not None:
        slot.pieces = pieces
    return StreamingHttpResponse(slot or pieces, content_type=content_type, headers=headers)
