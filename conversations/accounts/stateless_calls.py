"""Calls whose answers are stored nowhere, and what they take of their user's allowance, seen from the event loop.

They hold it by a row of their own, which expires if this process goes away. Settling is a task of its own, because the
call it belongs to may end by being cancelled.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Sequence

from django.db import DatabaseError, InterfaceError

from chatmemory.database import executors
from chatmemory.llm.protocol import PromptMessage
from chatmemory.text.tokens import count_tokens
from conversations.accounts import quotas

logger = logging.getLogger(__name__)

_ending: set[asyncio.Task[None]] = set()


def count(messages: Sequence[PromptMessage], instructions: str = "") -> int:
    """Tokens of a prompt; 0, uncounted, where nothing is limited."""
    if not quotas.are_on():
        return 0
    said = sum(message.tokens(count_tokens) for message in messages)
    attached = sum(one.tokens for message in messages for one in message.attachments)
    return said + attached + count_tokens(instructions)


async def begin(user_id: int, tokens: int) -> int | None:
    """Reserve for a call; what to end it by, None where nothing is limited. Raises `RateLimited`, `QuotaExceeded`."""
    if not quotas.are_on():
        return None
    return await executors.write(quotas.begin_passing, user_id, tokens)


def end(call: int | None, spent: Callable[[], int | None]) -> asyncio.Task[None]:
    """Settle a call by what `spent` says, as `quotas.settle` takes it. It need not be awaited."""
    task = asyncio.get_running_loop().create_task(_end(call, spent), context=contextvars.Context())
    _ending.add(task)
    task.add_done_callback(_ending.discard)
    return task


async def all_ended() -> None:
    """Wait for what is being settled."""
    if _ending:
        await asyncio.wait(_ending)


async def _end(call: int | None, spent: Callable[[], int | None]) -> None:
    if call is None:
        return
    try:
        await executors.write(lambda: quotas.end_passing(call, spent()))
    except (DatabaseError, InterfaceError) as exc:
        logger.warning("call not settled, it will expire", extra={"call": call, "error": type(exc).__name__})
