"""Summarizers for tests of services: one that follows a script, one that keeps what it is shown. No network."""

import json
import re
import threading
from collections.abc import AsyncIterator, Callable

from chatmemory.llm.protocol import Completion, Deadlines, Delta, Prompt, Reply, Usage, Variant
from chatmemory.text.tokens import count_tokens
from tests.support.fakes import objects, summarizer

Line = str | Completion | BaseException | Callable[[Prompt], str]

CODE = re.compile(r"\bT\d+\b")
"""The codes that tests plant in turns: `T1`, `T2`, and so on."""

TOLD_TOKENS = 200
"""Approximate length of a summary by `TellingModel`, in tokens."""


class ScriptedModel:
    """Answers with its lines in order, records its prompts, and fails on a call beyond the last line.

    A line is a summary, a whole completion, an exception to raise, or a function of the prompt.
    """

    def __init__(self, *lines: Line) -> None:
        self.lines = list(lines)
        self.prompts: list[Prompt] = []
        self.timeouts: list[float] = []
        self._lock = threading.Lock()

    def complete(self, prompt: Prompt, variant: Variant, *, timeout: float) -> Completion:
        with self._lock:
            self.prompts.append(prompt)
            self.timeouts.append(timeout)
            line = self._next()
        if isinstance(line, BaseException):
            raise line
        if isinstance(line, Completion):
            return line
        text = line if isinstance(line, str) else line(prompt)
        usage = Usage(count_tokens(prompt.messages[0].content), 0, count_tokens(text))
        return Completion(text, model="scripted", usage=usage)

    def _next(self) -> Line:
        assert self.lines, "unexpected call"
        return self.lines.pop(0)

    def stream(self, prompt: Prompt, variant: Variant, deadlines: Deadlines) -> AsyncIterator[Delta | Reply]:
        raise AssertionError("a summarizer does not stream")

    @property
    def inputs(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """The existing summary and the turns of each call."""
        return [summarizer.read_turns(prompt.messages[0].content) for prompt in self.prompts]


class KeepingModel(ScriptedModel):
    """Answers with every code it is shown, in order, and nothing else. Lines given to it come first."""

    def _next(self) -> Line:
        return self.lines.pop(0) if self.lines else keep_codes


class TellingModel(ScriptedModel):
    """Answers like the fake upstream, under any policy: with the requested object or summary."""

    def _next(self) -> Line:
        return self.lines.pop(0) if self.lines else tell


def tell(prompt: Prompt) -> str:
    """Return the requested answer, with every code of the form `AB-1234`. Raise `AssertionError` for a bad input."""
    asked = prompt.messages[0].content
    if prompt.schema is None:
        return summarizer.summarize(summarizer.parse(asked), tokens=TOLD_TOKENS)
    return json.dumps(objects.answer(prompt.schema.name, asked, tokens=TOLD_TOKENS))


def keep_codes(prompt: Prompt) -> str:
    """Return the codes of the existing summary and of the new turns."""
    return " ".join(codes(prompt.messages[0].content)) or "nothing"


def codes(text: str) -> list[str]:
    """Return the codes in `text`, in order, including repeated ones."""
    return CODE.findall(text)
