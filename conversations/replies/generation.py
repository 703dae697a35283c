"""Generate a reply: one asyncio task reads the upstream, appends to a log and wakes the log's readers.

The task belongs to the process, not to a request: it has an empty context and a strong reference, so a client that
disconnects changes nothing. Twice a second, one checkpointer per process stores all partial texts that grew. At the
end the reply is finished in one transaction. When the process is told to stop, readers are sent elsewhere at once,
and generations get `REPLY_DRAIN_SECONDS` to end by themselves.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from bisect import bisect_right
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import cast
from uuid import UUID
from weakref import WeakKeyDictionary

from django.conf import settings
from django.db import DatabaseError, InterfaceError

from chatmemory.database import executors
from chatmemory.errors import Unavailable
from chatmemory.llm import registry
from chatmemory.llm.protocol import Delta, Reply, ReplyError
from chatmemory.runtime import fault_points, process
from chatmemory.runtime.logs import request_id
from conversations import attachments
from conversations.models import Message, Status
from conversations.replies import broadcast, finish
from conversations.replies.begin import BegunTurn
from conversations.replies.broadcast import Broadcast
from conversations.replies.events import ReplyEvents
from conversations.replies.finish import Ending
from memory.policies.card_in_reply import CardStream

logger = logging.getLogger(__name__)

FINISH_TRIES = 8
"""Attempts to store a final reply while the database is away: 0.1 s apart at first, doubling, about 25 s in all."""

FIRST_WORDS = 8
"""Number of deltas after which readers get their turn even if more are there already, so that the first words need
not wait until a long burst has been read. After that, deltas that arrive together are sent together."""


FINISHED_AT_ONCE = 8
"""Maximum number of replies being finished at once. If a thousand end together, the renewal of leases would otherwise
wait behind all of them for longer than a lease lasts, and other processes would take the replies for abandoned
(measured with 2,000 streams over two servers)."""

STORED_TOGETHER = 100
"""Maximum number of partial texts stored in one transaction: other writers wait no longer than for these."""


class Log:
    """The text of a reply as it grows. Positions are code points, as clients count them."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._ends: list[int] = []

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def append(self, text: str) -> None:
        self._parts.append(text)
        self._ends.append(len(self) + len(text))

    def since(self, position: int) -> str:
        """Return all text after `position`."""
        first = bisect_right(self._ends, position)
        if first == len(self._parts):
            return ""
        start = self._ends[first] - len(self._parts[first])
        return "".join(self._parts[first:])[max(0, position - start) :]

    def text(self) -> str:
        """Return the whole text. This joins its pieces, as many small ones take several times the memory."""
        whole = "".join(self._parts)
        self._parts, self._ends = [whole], [len(whole)]
        return whole


class Generation:
    """One reply being generated in this process."""

    def __init__(self, begun: BegunTurn) -> None:
        self.begun = begun
        self.pending = begun.pending
        self.log = Log()
        self._card = CardStream() if begun.brings_card else None
        self.done = False
        self.failure: ReplyError | None = None
        """Why the reply is not complete, with what is not stored: the upstream's status and reason."""
        self.final: Message | None = None
        """The final message. None although `done` if another process finished the reply, or it could not be stored."""
        self.checkpointed = 0
        self.changes = Broadcast()
        """Wakes the readers of the log."""
        self.events = ReplyEvents()
        self._request_id = request_id.get()
        self._upstream: asyncio.Task[Reply] | None = None
        self._cut: Ending | None = None
        self._lost = False

    async def run(self) -> None:
        """Generate and finish the reply. However this ends, the generation is `done` and its readers are woken."""
        request_id.set(self._request_id)
        try:
            self._upstream = asyncio.create_task(self._read())
            if self._cut is not None:
                self._upstream.cancel()
            await asyncio.wait([self._upstream])
            fault_points.point("generate.ended")
            if not self._lost:
                ending = self._without_card(self._ending())
                self.failure = ending.reply.error
                self.final = await self._finish(ending)
        finally:
            self.done = True
            self.changes.close()

    def cancel(self) -> None:
        """End the reply as cancelled, with the text so far."""
        self._stop(Ending.cancelled())

    def interrupt(self) -> None:
        """End the reply as cut off by the shutdown of this process."""
        self._stop(Ending.interrupted(self.log.text()))

    def abandon(self) -> None:
        """Stop without finishing: the reply no longer belongs to this process."""
        self._lost = True
        self._stop(Ending.interrupted(""))

    def _stop(self, ending: Ending) -> None:
        if self._cut is not None or (self._upstream is not None and self._upstream.done()):
            return
        self._cut = ending
        if self._upstream is not None:
            self._upstream.cancel()

    async def _read(self) -> Reply:
        fault_points.point("generate.started")
        prompt = self.begun.prompt
        if prompt.attachments:
            prompt = await executors.read(attachments.with_bytes, prompt, self.pending.owner_id)
        stream = registry.chat_model().stream(prompt, self.begun.variant, settings.REPLY_DEADLINES)
        async with aclosing(cast("AsyncGenerator[Delta | Reply, None]", stream)) as items:
            count = 0
            async for item in items:
                if isinstance(item, Reply):
                    return item
                text = item.text if self._card is None else self._card.feed(item.text)
                if not text:
                    continue
                fault_points.point("generate.delta")
                self.log.append(text)
                self.changes.wake()
                count += 1
                if count == FIRST_WORDS:
                    await asyncio.sleep(0)
        return Reply("failed", error=ReplyError("upstream_error", "The model ended without an answer."))

    def _ending(self) -> Ending:
        assert self._upstream is not None
        if self._upstream.cancelled():
            return self._cut or Ending.interrupted(self.log.text())
        if (error := self._upstream.exception()) is not None:
            logger.error("generation failed", exc_info=error, extra={"reply": str(self.pending.message_id)})
            broken = ReplyError(
                "upstream_error", "Something went wrong on our side while the model answered."
            )
            return Ending.of(Reply("incomplete" if len(self.log) else "failed", error=broken))
        return Ending.of(self._upstream.result())

    def _without_card(self, ending: Ending) -> Ending:
        """Append held-back text, unless it is part of a memory card; return the ending with the card."""
        if self._card is None:
            return ending
        rest, card = self._card.finish(cut_off=ending.status != Status.COMPLETE)
        if rest:
            self.log.append(rest)
            self.changes.wake()
        return ending.with_card(card, self.log.text())

    async def _finish(self, ending: Ending) -> Message | None:
        try:
            return await self._stored(ending)
        except executors.UNSTORABLE as exc:
            self._log_unstorable(exc)
        try:
            bare = ending.without_extras()
            return await self._stored(bare) or await executors.read(finish.load_final_message, self.pending)
        except executors.UNSTORABLE as exc:
            self._log_unstorable(exc)  # the sweep finishes it, from its last checkpoint
        return None

    async def _stored(self, ending: Ending) -> Message | None:
        """Store the reply. If an error came after the commit, the next attempt finds and returns what was stored.

        Raises `executors.UNSTORABLE` at once.
        """
        text = self.log.text()
        for attempt in range(FINISH_TRIES):
            try:
                async with _finishing():
                    made = await executors.write(
                        finish.finish, self.pending, text, ending, owner=process.name()
                    )
                return made or (
                    await executors.read(finish.load_final_message, self.pending) if attempt else None
                )
            except executors.UNSTORABLE:
                raise
            except (DatabaseError, InterfaceError) as exc:
                logger.warning(
                    "reply not stored yet",
                    extra={"reply": str(self.pending.message_id), "error": type(exc).__name__},
                )
                await asyncio.sleep(0.1 * 2**attempt)
            except Exception:
                # Another attempt would fail the same way; but the reply may have been stored.
                logger.exception("reply not stored by a fault of our own")
                return await executors.read(finish.load_final_message, self.pending)
        return None

    def _log_unstorable(self, exc: Exception) -> None:
        extra = {"reply": str(self.pending.message_id), "error": type(exc).__name__}
        logger.error("reply does not fit the database", extra=extra)


def _finishing() -> asyncio.Semaphore:
    """Return the semaphore that limits how many replies are being finished on the running loop."""
    return _finishing_on.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(FINISHED_AT_ONCE))


_finishing_on: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
_running: dict[UUID, Generation] = {}
_tasks: set[asyncio.Task[None]] = set()
_checkpointer: asyncio.Task[None] | None = None
_draining = False
_drain_task: asyncio.Task[None] | None = None


def start(begun: BegunTurn) -> Generation:
    """Start generating, in a separate task on the running loop."""
    global _checkpointer  # one per process
    made = Generation(begun)
    # An empty context, so that nothing of the request (its thread-sensitive executor, its connection) is kept alive.
    _running[begun.pending.message_id] = made
    task = asyncio.get_running_loop().create_task(made.run(), context=contextvars.Context())
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    task.add_done_callback(lambda _: _running.pop(begun.pending.message_id, None))
    if _checkpointer is None or _checkpointer.done():
        _checkpointer = asyncio.get_running_loop().create_task(_checkpoints(), context=contextvars.Context())
    return made


def running(message_id: UUID) -> Generation | None:
    """Return the generation of this reply, if it runs in this process."""
    return _running.get(message_id)


def is_draining() -> bool:
    return _draining


def refuse_when_draining() -> None:
    """Raise `Unavailable` if this process is shutting down: new turns go to another process."""
    if _draining:
        raise Unavailable("This server is restarting. Try again in a moment.", retry_after=1)


def start_draining() -> None:
    """Send readers away and give the generations their time; called on SIGTERM, before the server stops listening.

    Not only at shutdown, because that comes after the last response: one with `"stream": false` waits for its reply.
    """
    global _draining, _drain_task  # a process drains once
    if not _draining:
        _draining = True
        logger.info("draining", extra={"replies": len(_running)})
        broadcast.wake_all()
        _drain_task = asyncio.get_running_loop().create_task(_drain(), context=contextvars.Context())


async def shut_down() -> None:
    """Give generations `REPLY_DRAIN_SECONDS` to end by themselves, then finish the rest as cut off."""
    start_draining()
    if _drain_task is not None:
        await _drain_task
    if _tasks:
        await asyncio.wait(_tasks, timeout=settings.REPLY_LEASE_SECONDS)


async def _drain() -> None:
    if _tasks:
        await asyncio.wait(_tasks, timeout=settings.REPLY_DRAIN_SECONDS)
    for generation in list(_running.values()):
        generation.interrupt()


async def _checkpoint(
    open_now: Mapping[UUID, Generation], grown: list[UUID], *, renew: bool
) -> dict[UUID, bool]:
    """Store what grew, in several transactions if it is much; return the result of `finish.checkpoint`."""
    while len(grown) > STORED_TOGETHER:
        some, grown = grown[:STORED_TOGETHER], grown[STORED_TOGETHER:]
        await executors.write(finish.store_partial, [(key, open_now[key].log.text()) for key in some])
    texts = [(key, open_now[key].log.text()) for key in grown]
    return await executors.write(finish.checkpoint, texts, renew=list(open_now) if renew else [])


async def _checkpoints() -> None:
    """While any reply is generated: store what grew, renew leases, stop replies that were cancelled or lost."""
    renewed = asyncio.get_running_loop().time()
    while _running:
        await asyncio.sleep(settings.REPLY_CHECKPOINT_SECONDS)
        now = asyncio.get_running_loop().time()
        renew = now - renewed >= settings.REPLY_LEASE_SECONDS / 3
        open_now = {key: made for key, made in _running.items() if not made.done}
        if not open_now:
            continue
        grown = {key: len(made.log) for key, made in open_now.items() if len(made.log) > made.checkpointed}
        try:
            mine = await _checkpoint(open_now, list(grown), renew=renew)
        except (DatabaseError, InterfaceError) as exc:
            logger.warning("checkpoint failed", extra={"replies": len(grown), "error": type(exc).__name__})
            continue
        except Exception:
            # Go on after any error: without checkpoints, all replies of this process would be taken for abandoned.
            logger.exception("checkpoint failed by a fault of our own", extra={"replies": len(grown)})
            continue
        renewed = now if renew else renewed
        for key, length in grown.items():
            open_now[key].checkpointed = length
        for key, made in open_now.items():
            if mine.get(key):
                made.cancel()
            elif key not in mine:
                made.abandon()
