"""Make one call to an `OpenAIModel` in its own event loop, and record how it went."""

import asyncio
import time
from collections.abc import Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from chatmemory.llm.openai import transport
from chatmemory.llm.openai.client import OpenAIModel
from chatmemory.llm.openai.reading import Style, Terminal
from chatmemory.llm.protocol import Deadlines, Delta, Prompt, PromptMessage, Reply, Variant

T = TypeVar("T")

STYLES: list[Style] = ["responses", "chat"]
KEY = "sk-test-never-in-a-log"
PROMPT = Prompt((PromptMessage("user", "Where is Ada?"),), instructions="Be kind.", cache_key="chat-1")
VARIANT = Variant("arco", "gpt-test")
BRISK = Deadlines(first_byte=0.5, idle=0.25, total=0.6)
"""Short deadlines, for upstreams that are to hit one. Other upstreams get the time that a busy machine may need."""
PATIENT = Deadlines(first_byte=10, idle=10, total=20)


@dataclass(frozen=True)
class Outcome:
    """What a consumer of `stream` received."""

    deltas: list[str]
    reply: Reply
    seconds: float

    @property
    def text(self) -> str:
        return "".join(self.deltas)

    @property
    def code(self) -> str:
        return self.reply.error.code if self.reply.error else ""

    @property
    def summary(self) -> tuple[str, str, str]:
        return self.reply.status, self.code, self.text


def model_at(base_url: str, style: Style, terminal: Terminal = "strict") -> OpenAIModel:
    return OpenAIModel(KEY, base_url, style, terminal)


async def listen(
    model: OpenAIModel, deadlines: Deadlines = PATIENT, prompt: Prompt = PROMPT, variant: Variant = VARIANT
) -> Outcome:
    """Read one reply to its end, checking the contract of `ChatModel.stream`."""
    started = time.monotonic()
    async with aclosing(model.stream(prompt, variant, deadlines)) as stream:
        events = [event async for event in stream]
    *deltas, reply = events
    assert isinstance(reply, Reply)
    texts = [delta.text for delta in deltas if isinstance(delta, Delta)]
    assert len(texts) == len(deltas), "more than one Reply"
    assert all(texts), "an empty delta"
    return Outcome(texts, reply, time.monotonic() - started)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in its own event loop, and close its connections."""

    async def closing() -> T:
        try:
            return await work
        finally:
            await transport.aclose()

    return asyncio.run(closing())


def talk(
    base_url: str,
    style: Style,
    *,
    deadlines: Deadlines = PATIENT,
    prompt: Prompt = PROMPT,
    terminal: Terminal = "strict",
) -> Outcome:
    """Read one reply in its own event loop."""
    return run(listen(model_at(base_url, style, terminal), deadlines, prompt))
