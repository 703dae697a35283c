"""Reserve and settle, from the event loop, the allowance of calls whose answers are not stored.

A reservation is held by a row of its own, which expires if this process goes away. Settling runs as a separate task,
because the call it belongs to may end by being cancelled.
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
    """Count the tokens of a prompt; return 0 without counting if limits are off."""
    if not quotas.enabled():
        return 0
    said = sum(message.tokens(count_tokens) for message in messages)
    attached = sum(one.tokens for message in messages for one in message.attachments)
    return said + attached + count_tokens(instructions)


async def begin(user_id: int, tokens: int) -> int | None:
    """Reserve for a call; return its id for `end`, or None if limits are off. Raises `RateLimited`, `QuotaExceeded`."""
    if not quotas.enabled():
        return None
    return await executors.write(quotas.begin_passing, user_id, tokens)


def end(call: int | None, spent: Callable[[], int | None]) -> asyncio.Task[None]:
    """Settle a call with the result of `spent`, as `quotas.settle` takes it. The task need not be awaited."""
    task = asyncio.get_running_loop().create_task(_end(call, spent), context=contextvars.Context())
    _ending.add(task)
    task.add_done_callback(_ending.discard)
    return task


async def all_ended() -> None:
    """Wait until all calls that are being settled are settled."""
    if _ending:
        await asyncio.wait(_ending)


async def _end(call: int | None, spent: Callable[[], int | None]) -> None:
    if call is None:
        return
    try:
        await executors.write(lambda: quotas.end_passing(call, spent()))
    except (DatabaseError, InterfaceError) as exc:
        logger.warning("call not settled, it will expire", extra={"call": call, "error": type(exc).__name__})
