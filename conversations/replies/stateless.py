"""A reply that is not stored, for clients that manage their own history (seed 004). It can be read only once.

Only its usage of the user's allowance is stored. A client that disconnects ends the upstream's stream, because nobody
else could read the rest. Replies of chats are in `generation`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, cast

from django.conf import settings

from chatmemory.errors import Unavailable
from chatmemory.llm import registry
from chatmemory.llm.protocol import Delta, Prompt, Reply, ReplyError, ReplyStatus, ToolCall, Variant
from chatmemory.text.tokens import count_tokens
from conversations.accounts import stateless_calls
from conversations.replies import generation
from conversations.replies.finish import INTERRUPTED, cost_of
from conversations.replies.generation import Log
from conversations.replies.message_json import usage_json

logger = logging.getLogger(__name__)

T = TypeVar("T")

NO_ANSWER = ReplyError("upstream_error", "The model ended without an answer.")
BROKEN = ReplyError("upstream_error", "Something went wrong on our side while the model answered.")


@dataclass(frozen=True, slots=True)
class StatelessRequest:
    """The prompt to send, and the variant that answers it."""

    prompt: Prompt
    variant: Variant
    tokens: int = 0
    """Tokens of the prompt, by our own count."""
    call: int | None = None
    """Id of its reservation of the user's allowance, from `quotas.begin_passing`."""


class StatelessReply:
    """One reply while it is read. Leaving the context ends the upstream's stream; so does the end of this process."""

    def __init__(self, asked: StatelessRequest) -> None:
        self._asked = asked
        self._log = Log()
        self._told = 0
        self._news = asyncio.Event()
        self._left = False
        self._settling: asyncio.Task[None] | None = None

    def __enter__(self) -> StatelessReply:
        self._task = asyncio.create_task(self._read())
        self._task.add_done_callback(lambda _: self._news.set())
        self._going = asyncio.create_task(_drained())
        self._going.add_done_callback(lambda going: None if going.cancelled() else self._task.cancel())
        return self

    def __exit__(self, *_: object) -> None:
        self._going.cancel()
        self._left = self._task.cancel()
        if self._settling is None:
            self._task.add_done_callback(lambda _: self._settled())

    @property
    def is_over(self) -> bool:
        """Whether the reply has ended and all of its text was returned."""
        return self._task.done() and self._told == len(self._log)

    async def more(self, seconds: float) -> str:
        """Return the text since the last call, after waiting for at most `seconds`; "" if there was none."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        self._news.clear()
        text = self._log.since(self._told)
        self._told += len(text)
        return text

    async def settle(self) -> None:
        """Settle the reservation of the reply, which has ended. If a reader leaves early, this happens by itself."""
        await asyncio.shield(self._settled())

    @property
    def failure(self) -> ReplyError | None:
        """Why a reply that has ended is not complete."""
        return self._reply.error

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Tool calls of a reply that has ended."""
        return self._reply.calls

    def message(self) -> dict[str, Any]:
        """Return the reply as it ended."""
        reply, variant = self._reply, self._asked.variant
        return {
            "role": "assistant",
            "content": self._log.text(),
            "status": reply.status,
            "model_variant": variant.name,
            "model": reply.model or variant.model,
            "usage": usage_json(reply.usage, cost_of(variant.price, reply)),
            "error": {"code": reply.error.code, "message": reply.error.message} if reply.error else None,
        }

    def _settled(self) -> asyncio.Task[None]:
        if self._settling is None:
            self._settling = stateless_calls.end(self._asked.call, self._spent)
        return self._settling

    def _spent(self) -> int | None:
        """Return the tokens used, None if nothing came of the call. They count if the client left before its end."""
        reply = self._reply
        if reply.usage is not None:
            return reply.usage.input_tokens + reply.usage.output_tokens
        if reply.status == "failed" and not self._left:
            return None
        return self._asked.tokens + count_tokens(self._log.text())

    @cached_property
    def _reply(self) -> Reply:
        cut: ReplyStatus = "incomplete" if len(self._log) else "failed"
        if self._task.cancelled():
            return Reply(cut, error=INTERRUPTED)
        if (error := self._task.exception()) is not None:
            logger.error("stateless reply failed", exc_info=error)
            return Reply(cut, error=BROKEN)
        return self._task.result()

    async def _read(self) -> Reply:
        model, asked = registry.chat_model(), self._asked
        stream = model.stream(asked.prompt, asked.variant, settings.REPLY_DEADLINES)
        async with aclosing(cast("AsyncGenerator[Delta | Reply, None]", stream)) as items:
            async for item in items:
                if isinstance(item, Reply):
                    return item
                self._log.append(item.text)
                self._news.set()
        return Reply("failed", error=NO_ANSWER)


async def cancel_on_drain(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, cancelled with this call. Raises `Unavailable` if the process shuts down first."""
    task = asyncio.create_task(work)
    going = asyncio.create_task(_drained())
    try:
        await asyncio.wait({task, going}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Unavailable("This server is restarting. Try again in a moment.", retry_after=1)
        return task.result()
    finally:
        going.cancel()
        task.cancel()


async def _drained() -> None:
    """Return once this process shuts down and the time for open answers is over, within a checkpoint interval.

    Answers that are not stored get `REPLY_DRAIN_SECONDS`, as replies do; no other process could continue them.
    """
    while not generation.is_draining():
        await asyncio.sleep(settings.REPLY_CHECKPOINT_SECONDS)
    await asyncio.sleep(settings.REPLY_DRAIN_SECONDS)
