"""Begin a turn on the event loop, after the fold or the search that it has to wait for.

`memory.turn` decides whether a turn waits for a fold. The type of a begun turn is left open: `BegunTurn |
ExistingReply`, or a value around one.
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
from memory.folding.request import freshen
from memory.recall.embeddings import near_in_meaning
from memory.recall.ranking import Near
from memory.turn import StaleMemory


@dataclass(frozen=True, slots=True)
class WaitingForFold:
    """A turn that begins once its chat's memory is fresh or the time for that is over. Nothing of it is stored yet."""

    stale: StaleMemory
    begin: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class WaitingForSearch:
    """A turn that begins after a search for older messages similar in meaning to its question."""

    chat_id: UUID
    question: str
    begin: Callable[[tuple[Near, ...]], Any]


Begun: TypeAlias = Any
"""The result of the turn's own `begin`, or `WaitingForFold`."""
Opened: TypeAlias = Any
"""The same, or `WaitingForSearch`."""


def try_begin(begin: Callable[..., Any]) -> Begun:
    """Return the result of `begin(may_wait=True)`, or `WaitingForFold` if the chat's memory is to be folded first."""
    generation.refuse_when_draining()
    try:
        return begin(may_wait=True)
    except StaleMemory as stale:
        return WaitingForFold(stale, begin)


async def wait_and_begin(opened: Opened) -> Any:
    """Wait for what `opened` still needs; return the begun turn."""
    if isinstance(opened, WaitingForSearch):
        near = await near_in_meaning(opened.chat_id, opened.question)
        opened = await executors.write(opened.begin, near)
    if isinstance(opened, WaitingForFold):
        await _freshened(opened.stale)
        generation.refuse_when_draining()
        opened = await executors.write(opened.begin)
    return opened


async def _freshened(stale: StaleMemory) -> None:
    """Fold the chat on the executor for slow work. A fold that exceeds the time limit continues in the background."""
    with suppress(TimeoutError):
        async with asyncio.timeout(stale.seconds):
            await executors.slow(freshen, stale.chat_id, stale.seconds)
