"""A request → the steps of its answer: which behaviour applies, what is said, what it costs. No I/O."""

from __future__ import annotations

import itertools

from tests.fakes import summarizer
from tests.fakes.answering import answer_steps
from tests.fakes.behaviours import Behaviour, Steps, behaviour, is_behaviour, lorem
from tests.fakes.connection import Request
from tests.fakes.speech import Speech
from tests.fakes.streaming import stream_steps

ECHO = 200
"""Characters of the user's message that an echo repeats."""


class Replies:
    """Decides what to answer; `faults` collects what was wrong with requests."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self._count = itertools.count(1)

    def steps(self, request: Request, scripted: Behaviour | None, default: Behaviour) -> Steps:
        """How to answer this request."""
        how = scripted or (behaviour(request.model) if is_behaviour(request.model) else default)
        try:
            text = text_of(how, request)
        except AssertionError as exc:
            self.faults.append(str(exc))
            how, text = Behaviour("status", code=400, error="invalid_summarizer_input"), ""
        speech = self._speech(request, text)
        answer = stream_steps if request.lane == "stream" else answer_steps
        return answer(how, speech, text)

    def _speech(self, request: Request, text: str) -> Speech:
        asked = sum(len(content) for _, content in request.said) // 4
        usage = {"input": asked, "cached": asked // 2, "output": max(1, len(text) // 4)}
        wants_usage = bool((request.body.get("stream_options") or {}).get("include_usage"))
        model = request.model or "gpt-hosted"
        return Speech(request.style, model, f"resp_{next(self._count)}", usage, wants_usage)


def text_of(how: Behaviour, request: Request) -> str:
    """What to say. Raises `AssertionError` when a summarizer's input is not in its format."""
    if how.text:
        return how.text
    if how.deltas:
        return lorem(how.deltas)
    asked = request.said[-1][1] if request.said else ""
    if summarizer.is_summarizer_input(asked):
        return summarizer.summarize(summarizer.parse(asked), tokens=how.tokens, pattern=how.pattern)
    return f"You said: {asked[:ECHO]}"
