"""The built-in model: no key, no network. It only ever repeats what it was shown, and says so.

With it the whole product works on one machine, and it folds in place of a summarizer that keeps failing. It
knows the summarizer's input, and nothing of chats, storage or policies.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from itertools import chain

from chatmemory.llm.extract import digest, on_question
from chatmemory.llm.protocol import Completion, Deadlines, Delta, Prompt, Reply, Usage, Variant
from memory.quoting import is_marker, parse_summarizer_input
from memory.tokens import MESSAGE_OVERHEAD, clip_end, count_tokens

NAME = "offline"

INTRODUCTION = "This is the built-in offline model; it can only quote."
FOUND = f"{INTRODUCTION} What this chat holds on your question:"
NOTHING = (
    f"{INTRODUCTION} It found nothing on your question in this chat, but your message is kept. "
    "For real answers set OPENAI_API_KEY, or OPENAI_BASE_URL for any compatible server, and start again."
)

QUOTES = 3
QUESTION_CHARS = 8000
"""How much of a question is searched for, and of any one message searched in: ten times this."""

_ROLE = re.compile(r"(?:> )?(?:User|Assistant): ")
_WORD = re.compile(r"\s*\S+")


class OfflineModel:
    """A `ChatModel` that extracts. Deterministic; `pause` is the seconds between two words of a stream."""

    def __init__(self, pause: float = 0.01, summary_tokens: int = 500) -> None:
        self.pause = pause
        self.summary_tokens = summary_tokens

    async def stream(
        self, prompt: Prompt, variant: Variant, deadlines: Deadlines
    ) -> AsyncIterator[Delta | Reply]:
        """Yield the answer word by word, then a `complete` reply."""
        del deadlines  # Nothing here waits for anyone.
        # Searching and counting a long prompt takes milliseconds that belong to other streams.
        text = await asyncio.to_thread(self._answer, prompt, variant)
        usage = await asyncio.to_thread(_usage, prompt, text)
        for word in _WORD.findall(text):
            yield Delta(word)
            await asyncio.sleep(self.pause)
        yield Reply("complete", usage=usage, model=NAME)

    def complete(self, prompt: Prompt, variant: Variant, *, timeout: float) -> Completion:
        """Answer at once: a summary if the last message is a summarizer input, else as `stream` would."""
        del timeout  # Nothing here waits for anyone.
        text = self._summary(prompt) or self._answer(prompt, variant)
        return Completion(text, model=NAME, usage=_usage(prompt, text))

    def _summary(self, prompt: Prompt) -> str:
        """The summary that is asked for; "" if none is."""
        try:
            existing, turns = parse_summarizer_input(prompt.messages[-1].content if prompt.messages else "")
        except ValueError:
            return ""
        stressed = [existing, *(user for user, _ in turns)]
        return digest([existing, *chain.from_iterable(turns)], self.summary_tokens, stressed)

    def _answer(self, prompt: Prompt, variant: Variant) -> str:
        quotes = on_question(_remembered(prompt), _question(prompt), QUOTES)
        text = "\n".join([FOUND, *(f"- {quote}" for quote in quotes)]) if quotes else NOTHING
        return clip_end(text, variant.max_output_tokens) if variant.max_output_tokens else text


def _question(prompt: Prompt) -> str:
    return prompt.messages[-1].content[:QUESTION_CHARS] if prompt.messages else ""


def _remembered(prompt: Prompt) -> Iterator[str]:
    """Everything before the question, without headings, markers and what this model said itself."""
    for message in prompt.messages[:-1]:
        lines = (_ROLE.sub("", line, count=1) for line in message.content[: 10 * QUESTION_CHARS].splitlines())
        if not message.content.startswith(INTRODUCTION):
            yield "\n".join(line for line in lines if not is_marker(line) and INTRODUCTION not in line)


def _usage(prompt: Prompt, text: str) -> Usage:
    sent = [prompt.instructions, *(message.content for message in prompt.messages)]
    asked = sum(count_tokens(part) + MESSAGE_OVERHEAD for part in sent if part)
    return Usage(input_tokens=asked, cached_tokens=0, output_tokens=count_tokens(text))
