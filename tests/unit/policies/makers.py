"""The policy `progressive` in tests: its state, its turns, and the answers of a summarizer to it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from chatmemory.llm.protocol import Completion
from memory.limits import MemoryLimits
from memory.policies import State, get_policy
from memory.policies.progressive.policy import ProgressiveNumbers
from memory.policies.protocol import Answers, Ask
from tests.unit.context.makers import make_turn

LIMITS = MemoryLimits()
POLICY = get_policy("progressive")
NARRATIVE = "The user writes a paper on tides. The assistant set up its outline. " * 6
KNOWN = State(
    NARRATIVE,
    {
        "important_data": {"user_preferences": {"theme": "dark"}, "source_urls": ["url1"]},
        "summary_version": 1,
    },
)
TURNS = [make_turn(0, "I prefer dark mode. Read https://example.org/a.", "Noted.")]


def limits_with(instructions_tokens: int = 0, **numbers: int) -> MemoryLimits:
    given = {"progressive": ProgressiveNumbers(**numbers)}
    return replace(LIMITS, numbers=given, instructions_tokens=instructions_tokens)


TWO = limits_with(calls=2)


def said(text: str, *, truncated: bool = False, refused: bool = False) -> Completion:
    return Completion(text=text, model="nano", truncated=truncated, refused=refused)


def both(summary: str = NARRATIVE, **kinds: Any) -> Completion:
    return said(json.dumps({"important_data": kinds, "summary": summary}))


def next_ask(answers: Answers = (), limits: MemoryLimits = LIMITS, state: State = KNOWN) -> Ask:
    ask = POLICY.ask(state, TURNS, limits, answers)
    assert ask is not None
    return ask


def absorbed(answers: Answers, limits: MemoryLimits = LIMITS, state: State = KNOWN) -> State:
    """The state after `answers`; asserts that the policy asks for each of them and for no more."""
    for number in range(len(answers)):
        assert POLICY.ask(state, TURNS, limits, answers[:number]) is not None
    assert POLICY.ask(state, TURNS, limits, answers) is None
    return POLICY.absorb(state, TURNS, answers, limits)


def data_of(state: State) -> dict[str, Any]:
    data = state.data["important_data"]
    assert isinstance(data, dict)
    return data


def texts_of(state: State) -> list[str]:
    return [section.text for section in POLICY.render(state)]
