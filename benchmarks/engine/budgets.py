"""Prompts over budget: the memory in every prompt that a benchmark makes, recounted by tokens only."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

from benchmarks.figures import Figure
from chatmemory.llm.protocol import Prompt
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_tokens


@dataclass(slots=True)
class Prompts:
    """The number of prompts, how many were over budget, and the size of the largest. Keeps no text."""

    seen: int = 0
    over: int = 0
    largest: int = 0

    def add(self, prompt: Prompt, budget: int | None = None) -> None:
        """Count the memory of a prompt without sources: all its messages except the last, which is the question."""
        tokens = sum(count_tokens(message.content) + MESSAGE_OVERHEAD for message in prompt.messages[:-1])
        self.seen += 1
        self.over += tokens > (budget or settings.MEMORY_PROMPT_TOKEN_BUDGET)
        self.largest = max(self.largest, tokens)

    def figure(self) -> Figure:
        """Return the number of prompts over budget as a figure whose bar is zero."""
        note = f"of {self.seen:,}; the largest had {self.largest:,} tokens"
        return Figure("prompts over budget", self.over, "", bar=0, portable=True, note=note)
