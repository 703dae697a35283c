"""A request → the steps of its answer: which behaviour applies, the text, the usage. No I/O."""

import itertools
import json
from dataclasses import replace

from tests.support.fakes import objects, summarizer, tools
from tests.support.fakes.behaviours import Behaviour, Steps, behaviour, is_behaviour, lorem
from tests.support.fakes.connection import Request
from tests.support.fakes.speech import Call, Speech
from tests.support.fakes.streaming import answer_steps, stream_steps

ECHO = 200
"""Characters of the user's message that an echo repeats; one that obeys remembers the message before it, too."""


class Replies:
    """Decides what to answer; `faults` collects what was wrong with requests."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self._count = itertools.count(1)

    def steps(self, request: Request, scripted: Behaviour | None, default: Behaviour) -> Steps:
        """Return the steps of the answer to this request."""
        how = scripted or (behaviour(request.model) if is_behaviour(request.model) else default)
        number = next(self._count)
        try:
            if split := tools.fault(request):
                raise AssertionError(split)
            text, calls = said_to(how, request, number)
        except AssertionError as exc:
            self.faults.append(str(exc))
            how, text, calls = Behaviour("status", code=400, error="invalid_summarizer_input"), "", ()
        if how.obeys:
            how, text = obeyed(how, request, text)
        spent = min(how.thinks, request.output_limit or how.thinks)
        how, text = thought(how, request.output_limit, text)
        speech = self._speech(request, text, calls, spent, number)
        answer = stream_steps if request.lane == "stream" else answer_steps
        return answer(how, speech, text)

    def _speech(self, request: Request, text: str, calls: tuple[Call, ...], thought: int, number: int) -> Speech:
        asked = sum(len(content) for _, content in request.said) // 4
        usage = {"input": max(1, asked), "cached": asked // 2, "output": thought + max(1, len(text) // 4)}
        wants_usage = bool((request.body.get("stream_options") or {}).get("include_usage"))
        return Speech(request.style, request.model, f"resp_{number}", usage, wants_usage, calls)


def thought(how: Behaviour, limit: int | None, text: str) -> tuple[Behaviour, str]:
    """Return the answer after its reasoning: cut where the output limit ends it, which may be before the first word."""
    if not how.thinks or limit is None or how.thinks + len(text) // 4 <= limit:
        return how, text
    said = text[: max(0, limit - how.thinks) * 4]
    return replace(how, kind="incomplete", after=len(said)), said


def obeyed(how: Behaviour, request: Request, text: str) -> tuple[Behaviour, str]:
    """Return the answer adapted to the request: JSON, up to a stop string, within its limit."""
    if (made := tools.formatted(request)) is not None:
        text = json.dumps(made)
    stops = request.body.get("stop") or []
    for stop in [stops] if isinstance(stops, str) else stops:
        text = text.partition(stop)[0]
    limit = request.output_limit
    if limit is None or len(text) <= 4 * limit:
        return how, text
    return replace(how, kind="incomplete", after=len(text)), text[: 4 * limit]


def said_to(how: Behaviour, request: Request, number: int) -> tuple[str, tuple[Call, ...]]:
    """Return what to say, and what to call: the client's tools, as scripted or requested.

    A text that the test specified is sent unchanged. Raise `AssertionError` if a summarizer's input is not in its
    format.
    """
    calls = tools.scripted(how.tools) or (() if how.text else tools.requested_calls(request, number))
    if calls:
        return how.text, tuple(replace(call, is_alone=not how.text) for call in calls)
    text = text_of(how, request)
    if how.text or request.lane == "complete" or how.says == "no_card" or not objects.wants_card(request):
        return text, ()
    return text + objects.card_block(request, how.pattern), ()


def text_of(how: Behaviour, request: Request) -> str:
    """Return the text without a card. Raise `AssertionError` if a summarizer's input is not in its format."""
    if how.text:
        return how.text
    if how.deltas:
        return lorem(how.deltas)
    asked = request.said[-1][1] if request.said else ""
    if request.lane == "complete" and (name := objects.requested_object(request)) in objects.KEYS:
        right = objects.answer(name, asked, tokens=how.tokens, pattern=how.pattern)
        says = how.says or ("" if objects.schema_name(request) else "fenced")
        return objects.spoil(says, right, how.size)
    if "=== EXISTING_SUMMARY ===" not in asked:
        heard = [content for _, content in request.said[-2:]] if how.obeys else [asked]
        return f"You said: {' '.join(heard)[:ECHO]}"
    summary = summarizer.summarize(summarizer.parse(asked), tokens=how.tokens, pattern=how.pattern)
    return summary + " And so on." * (how.size // 11 if how.says == "vast" else 0)
