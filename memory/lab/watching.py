"""A model that is watched: each call of the summarizer is counted, and answered by the model behind. Pure."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from chatmemory.llm.protocol import ChatModel, Completion, Deadlines, Delta, Prompt, Reply, Usage, Variant
from memory.lab.prompts import prompt_tokens
from memory.tokens import count_tokens


@dataclass(slots=True)
class Calls:
    """The calls so far. One that failed is counted with what it was sent."""

    usages: list[Usage] = field(default_factory=list)

    def watched(self, model: ChatModel) -> ChatModel:
        """`model`, its calls counted here."""
        return _Watched(model, self)

    def taken(self) -> list[Usage]:
        """The calls since this was asked before."""
        taken, self.usages = self.usages, []
        return taken


@dataclass(frozen=True, slots=True)
class _Watched:
    model: ChatModel
    calls: Calls

    def stream(self, prompt: Prompt, variant: Variant, deadlines: Deadlines) -> AsyncIterator[Delta | Reply]:
        return self.model.stream(prompt, variant, deadlines)

    def complete(self, prompt: Prompt, variant: Variant, *, timeout: float) -> Completion:
        at = len(self.calls.usages)
        self.calls.usages.append(Usage(prompt_tokens(prompt), 0, 0))
        answer = self.model.complete(prompt, variant, timeout=timeout)
        told = answer.usage
        self.calls.usages[at] = told or Usage(prompt_tokens(prompt), 0, count_tokens(answer.text))
        return answer
