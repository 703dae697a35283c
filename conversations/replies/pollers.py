"""Read a reply that another process writes, with one poller per reply and process for any number of readers.

A poller reads the last checkpoint about as often as one is stored, less often while nothing comes or the database is
slow, and wakes its readers when there is more. It ends with the reply, or with its last reader.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.db.models.functions import Substr

from chatmemory.database import executors
from conversations.models import ActiveReply, Message
from conversations.replies import generation
from conversations.replies.broadcast import Broadcast
from conversations.replies.events import ReplyEvents
from conversations.replies.generation import Log
from memory.context.record import outline_of

logger = logging.getLogger(__name__)

SLOWEST = 4
"""Maximum factor by which the interval grows while nothing comes."""
QUIET_POLLS = 8
"""Number of polls without news after which the interval grows, by one checkpoint interval each time."""
MIN_PAUSE_FACTOR = 4
"""Minimum pause as a multiple of the time that the last poll took: polling takes at most a fifth of a thread."""
GIVE_UP_SECONDS = 25.0
"""Seconds without an answer of the database after which readers are sent away."""


@dataclass(frozen=True, slots=True)
class PolledReply:
    """A reply in the database: active with the text of its last checkpoint, final, or gone (both None)."""

    active: ActiveReply | None
    final: Message | None
    context: dict[str, Any]


def find(chat_id: UUID, message_id: UUID) -> PolledReply:
    """Return the reply's row: the active one if there is one, else the final one."""
    active = ActiveReply.objects.filter(chat_id=chat_id, message_id=message_id).first()
    if active is not None:
        return PolledReply(active, None, active.context)
    message = Message.objects.filter(chat_id=chat_id, pk=message_id).first()
    return PolledReply(None, message, outline_of(message_id))


def text_after(chat_id: UUID, message_id: UUID, position: int) -> str | None:
    """Return the last checkpoint's text after `position`; None if the reply is no longer being written."""
    active = ActiveReply.objects.filter(chat_id=chat_id, message_id=message_id)
    return active.values_list(Substr("text", position + 1), flat=True).first()


class Poller:
    """One reply of another process, as far as it has been read here."""

    def __init__(self, chat_id: UUID, message_id: UUID) -> None:
        self.chat_id, self.message_id = chat_id, message_id
        self.log = Log()
        self.first: PolledReply | None = None
        """The reply as it was found by the first poll; None until then."""
        self.done = False
        self.final: Message | None = None
        """The final message. None although `done` if its chat was deleted, or if `error` ended the polling."""
        self.error: Exception | None = None
        self.readers = 0
        self.changes = Broadcast()
        self.events = ReplyEvents()
        self._quiet = 0
        self._wanted = asyncio.Event()
        self._answered_at = asyncio.get_running_loop().time()
        self._task = asyncio.get_running_loop().create_task(self._run(), context=contextvars.Context())

    def join(self) -> None:
        """Add a reader, and poll soon for it if the next poll is far off."""
        self.readers += 1
        self._quiet = 0
        self._wanted.set()

    def leave(self) -> None:
        """Remove a reader. The poller ends with the last one."""
        self.readers -= 1
        if not self.readers:
            self._forget()
            self._task.cancel()
            self.changes.close()

    async def _run(self) -> None:
        try:
            while not self.done:
                began = asyncio.get_running_loop().time()
                await self._look()
                if not self.done:
                    await self._pause(asyncio.get_running_loop().time() - began)
        except Exception as exc:  # passed on to its readers, who would otherwise wait forever
            self.error, self.done = exc, True
            logger.error("reply not read", exc_info=exc, extra={"reply": str(self.message_id)})
        finally:
            self._forget()
            self.changes.close()

    def _forget(self) -> None:
        """Unregister, so that later readers get a new poller."""
        key = (self.chat_id, self.message_id)
        if _pollers.get(key) is self:
            del _pollers[key]

    async def _look(self) -> None:
        """Poll once. Raises the database's error if it has not answered for too long."""
        loop = asyncio.get_running_loop()
        try:
            grew = await self._read()
        except (DatabaseError, InterfaceError):
            if generation.is_draining() or loop.time() - self._answered_at > GIVE_UP_SECONDS:
                raise
            return
        self._answered_at = loop.time()
        self._quiet = 0 if grew else self._quiet + 1
        if grew and not self.done:
            self.changes.wake()

    async def _read(self) -> bool:
        """Read what is new; return whether there was anything."""
        if self.first is not None:
            rest = await executors.read(text_after, self.chat_id, self.message_id, len(self.log))
            if rest is not None:
                return self._append(rest)
        found = await executors.read(find, self.chat_id, self.message_id)
        is_first, self.first = self.first is None, self.first or found
        self._append(_text(found)[len(self.log) :])
        self.final, self.done = found.final, found.active is None
        return is_first or self.done

    def _append(self, text: str) -> bool:
        if text:
            self.log.append(text)
        return bool(text)

    async def _pause(self, took: float) -> None:
        """Wait until the next poll: never less than the time between two checkpoints."""
        interval = settings.REPLY_CHECKPOINT_SECONDS
        rare = min(SLOWEST, 1 + self._quiet // QUIET_POLLS)
        self._wanted.clear()
        await asyncio.sleep(max(interval, MIN_PAUSE_FACTOR * took))
        with suppress(TimeoutError):
            async with asyncio.timeout((rare - 1) * interval):
                await self._wanted.wait()


@contextmanager
def polling(chat_id: UUID, message_id: UUID) -> Iterator[Poller]:
    """Join the poller of this reply as one reader, starting it if there is none."""
    poller = _pollers.get((chat_id, message_id))
    if poller is None:
        poller = _pollers[chat_id, message_id] = Poller(chat_id, message_id)
    poller.join()
    try:
        yield poller
    finally:
        poller.leave()


def running() -> int:
    """Return the number of pollers."""
    return len(_pollers)


_pollers: dict[tuple[UUID, UUID], Poller] = {}


def _text(found: PolledReply) -> str:
    if found.active is not None:
        return found.active.text
    return found.final.content if found.final is not None else ""
