"""A turn on its way from the request to its beginning: what it has to wait for, on the event loop.

Whether it has to wait for a fold is `memory.lazy_fold`'s to say. Generic over what a begun turn is:
`BegunTurn | ExistingReply`, or a value around one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

from chatmemory.database import executors
from conversations.replies import generation
from memory.services import Near, StaleMemory, freshen, near_in_meaning


@dataclass(frozen=True, slots=True)
class Waiting:
    """A turn that begins when its chat's memory is fresh, or has had its time. Nothing of it is stored yet."""

    stale: StaleMemory
    begin: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Looking:
    """A turn that begins when older messages were looked for that mean something like its question."""

    chat_id: UUID
    question: str
    begin: Callable[[tuple[Near, ...]], Any]


Begun: TypeAlias = Any
"""What the turn's own `begin` gives, or `Waiting`."""
Opened: TypeAlias = Any
"""The same, or `Looking`."""


def begun_or_waiting(begin: Callable[..., Any]) -> Begun:
    """What `begin(may_wait=True)` gives; `Waiting` where the chat's memory wants a fold first."""
    generation.refuse_when_draining()
    try:
        return begin(may_wait=True)
    except StaleMemory as stale:
        return Waiting(stale, begin)


async def begun(opened: Opened) -> Any:
    """What `begin` gives once nothing is left to wait for."""
    if isinstance(opened, Looking):
        near = await near_in_meaning(opened.chat_id, opened.question)
        opened = await executors.write(opened.begin, near)
    if isinstance(opened, Waiting):
        await _freshened(opened.stale)
        generation.refuse_when_draining()
        opened = await executors.write(opened.begin)
    return opened


async def _freshened(stale: StaleMemory) -> None:
    """Have the chat folded, on a thread that nobody else needs. A fold that takes longer goes on by itself."""
    with suppress(TimeoutError):
        async with asyncio.timeout(stale.seconds):
            await executors.slow(freshen, stale.chat_id, stale.seconds)
