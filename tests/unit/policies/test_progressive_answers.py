"""The policy `progressive`: how it uses any answer, and what it does without one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from chatmemory.llm.offline.model import OfflineModel
from chatmemory.llm.protocol import Completion, Prompt, PromptMessage, Variant
from chatmemory.text.tokens import count_tokens
from memory.limits import MemoryLimits
from memory.policies import (
    Refusal,
    State,
)
from memory.policies.progressive.important_data import MOST_ITEMS
from memory.policies.progressive.narrative_length import summary_cap
from memory.policies.progressive.stored import folds_of
from memory.policies.protocol import Fault
from tests.support.exhaustive import first_of
from tests.unit.context.makers import make_turn, words
from tests.unit.policies.makers import (
    KNOWN,
    LIMITS,
    POLICY,
    TURNS,
    TWO,
    absorbed,
    both,
    data_of,
    next_ask,
    said,
    texts_of,
)

# Answers that cannot be used

BAD = [
    said("Noted."),
    said(""),
    said('{"important_data": {"entities": ["Lima"]'),
    said('{"other": 1}'),
    said("[]"),
    said("I'm sorry, but I can't help with that."),
    said("No.", refused=True),
    replace(both(), truncated=True),
    said('{"error": {"message": "overloaded"}}'),
    said('{"important_data": 5, "summary": ["x"]}'),
    said("[" * 50_000),
    said('{"a":' * 50_000),
]


@pytest.mark.parametrize("bad", BAD)
def test_an_answer_that_cannot_be_used_is_asked_for_once_more(bad: Completion) -> None:
    assert next_ask([bad]) == next_ask()
    state = absorbed([bad, both("They went on.", entities=["Lima"])])
    assert (state.summary, data_of(state)["entities"]) == ("They went on.", ["Lima"])


@pytest.mark.parametrize("bad", BAD)
def test_after_two_bad_answers_a_plain_summary_is_asked_for_and_the_data_stay(bad: Completion) -> None:
    ask = next_ask([bad, bad])
    assert ask.schema is None
    assert "Answer with the summary alone" in ask.instructions
    state = absorbed([bad, bad, said("They went on.")])
    assert state.summary == "They went on."
    assert state.data["summary_version"] == 2
    assert data_of(state) == data_of(POLICY.absorb(KNOWN, [], [], LIMITS))


@pytest.mark.parametrize("bad", BAD)
def test_extraction_is_asked_for_once_more_and_then_done_without(bad: Completion) -> None:
    assert next_ask([bad], TWO) == next_ask(limits=TWO)
    assert next_ask([bad, bad], TWO).schema is None
    state = absorbed([bad, bad, said("They went on.")], TWO)
    assert (state.summary, data_of(state)["user_preferences"]) == ("They went on.", {"theme": "dark"})


def test_an_extraction_that_failed_is_done_without_at_once() -> None:
    """The client has already retried the request."""
    assert next_ask([None], TWO).schema is None
    assert absorbed([None, said("They went on.")], TWO).summary == "They went on."


def test_a_summary_is_asked_for_once_more_in_two_calls_too() -> None:
    assert next_ask([None, said("")], TWO) == next_ask([None], TWO)
    assert absorbed([None, said(""), said("They went on.")], TWO).summary == "They went on."


@pytest.mark.parametrize(
    ("answers", "limits", "reason"),
    [
        ([said("Noted."), said("{}"), said("")], LIMITS, "empty"),
        ([said("Noted."), said("{}"), said("NONE")], LIMITS, "empty"),
        ([said("Noted."), said("{}"), said("x", truncated=True)], LIMITS, "truncated"),
        ([said("Noted."), said("{}"), said("Error: out of memory")], LIMITS, "error_text"),
        ([None, said(""), said("I am sorry, I can't.")], TWO, "refused"),
    ],
)
def test_without_any_summary_the_old_state_stands(
    answers: list[Completion | None], limits: MemoryLimits, reason: Fault
) -> None:
    with pytest.raises(Refusal) as caught:
        absorbed(answers, limits)
    assert caught.value.reason == reason


def test_no_answer_at_all_is_refused() -> None:
    with pytest.raises(Refusal):
        POLICY.absorb(KNOWN, TURNS, [], LIMITS)


def test_prose_that_comes_twice_is_the_summary() -> None:
    prose = said("They spoke of tides and of the moon. " * 20)
    state = absorbed([prose, prose])
    assert state.summary.startswith("They spoke of tides")
    assert data_of(state)["user_preferences"] == {"theme": "dark"}


def test_a_summary_is_kept_that_came_without_data_and_the_other_way_round() -> None:
    without_data = said(json.dumps({"important_data": "none", "summary": "They went on."}))
    without_summary = said(json.dumps({"important_data": {"entities": ["Lima"]}, "summary": ""}))
    state = absorbed([without_data, said("Noted.")])
    assert (state.summary, data_of(state)["entities"]) == ("They went on.", [])
    for answers in ([without_data, without_summary], [without_summary, without_data]):
        state = absorbed(answers)
        assert (state.summary, data_of(state)["entities"]) == ("They went on.", ["Lima"])
    state = absorbed([without_summary, without_summary, said("They went on.")])
    assert (state.summary, data_of(state)["entities"]) == ("They went on.", ["Lima"])


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"important_data": {"entities": ["Lima",]}, "summary": "They went on."}\n```',
        'Here it is: {"important_data": {"entities": ["Lima"]}, "summary": "They went on."} I hope it helps.',
        '{"summary": "They went on.", "entities": ["Lima"]}',
    ],
)
def test_json_is_read_however_it_is_wrapped(text: str) -> None:
    state = absorbed([said(text)])
    assert (state.summary, data_of(state)["entities"]) == ("They went on.", ["Lima"])


def test_no_important_data_is_an_answer_too() -> None:
    assert data_of(absorbed([both("They went on.")]))["user_preferences"] == {"theme": "dark"}
    assert POLICY.ask(KNOWN, TURNS, TWO, [said("{}")]) == POLICY.ask(KNOWN, TURNS, TWO, [None])


@pytest.mark.parametrize(
    "piece", first_of(["{", '{"', "a ", "[{", '{"important_data":', "```", "\n", '"x",'])
)
@pytest.mark.parametrize("limits", first_of([LIMITS, TWO]))
def test_a_huge_answer_ends_in_time(piece: str, limits: MemoryLimits) -> None:
    huge = said(piece * (2_000_000 // len(piece)))
    assert next_ask([huge], limits) == next_ask(limits=limits)
    huge_data = said(
        json.dumps({"important_data": {"entities": [f"name {at}" for at in range(20_000)]}, "summary": "x"})
    )
    assert len(data_of(absorbed([huge_data]))["entities"]) <= MOST_ITEMS


# What is accepted


def test_what_is_told_as_a_link_is_one_or_was_said() -> None:
    state = absorbed([both("They read on.", source_urls=["https://example.org/a", "N/A", "none", "url1"])])
    assert data_of(state)["source_urls"] == ["url1", "https://example.org/a"]


def test_two_folds_lose_nothing_of_the_first() -> None:
    """Seed 001, test scenario 4."""
    turns = [make_turn(0, "I prefer dark mode. Sources: url1, url2. Sections: Intro, Methods.", "Noted.")]
    first = both(
        user_preferences={"mode": "dark"},
        document_structure={"sections": ["Intro", "Methods", "Results", "Conclusion"]},
        source_urls=["url1", "url2"],
    )
    state = POLICY.absorb(State(), turns, [first], LIMITS)
    later = [make_turn(1, "Use Arial. We go with LaTeX. See https://example.org/b.", "Fine.")]
    second = both(
        user_preferences={"font": "Arial"},
        key_decisions=["They go with LaTeX."],
        source_urls=["https://example.org/b", "https://example.org/b/"],
    )
    data = data_of(POLICY.absorb(state, later, [second], LIMITS))
    assert data["user_preferences"] == {"mode": "dark", "font": "Arial"}
    assert data["document_structure"] == {"sections": ["Intro", "Methods", "Results", "Conclusion"]}
    assert data["source_urls"] == ["url1", "url2", "https://example.org/b"]
    assert data["key_decisions"] == ["They go with LaTeX."]


def test_the_state_stays_bounded_however_long_the_chat() -> None:
    state = State()
    for number in range(60):
        answer = both(
            f"Part {number}. {words(1500)}",
            important_facts=[f"Fact {number} {at}: {words(30)}" for at in range(9)],
            entities=[f"Name {number} {at}" for at in range(20)],
            user_preferences={f"wish {number}": "dark"},
        )
        state = POLICY.absorb(state, TURNS, [answer], LIMITS)
        sizes = [count_tokens(text) for text in texts_of(state)]
        assert sizes[0] <= 600 + 15
        assert sizes[1] <= summary_cap(5) + 10
    assert "Fact 59" in json.dumps(data_of(state))
    assert len(json.dumps(state.to_json())) < 10_000


@pytest.mark.parametrize("limits", [LIMITS, TWO])
def test_the_built_in_model_fills_it(limits: MemoryLimits) -> None:
    state = State()
    for fold in range(2):
        turns = [
            make_turn(
                at, f"I prefer dark mode. Order AB-{1000 + fold}{at} costs {at} EUR.", "Let's take Lima."
            )
            for at in range(4)
        ]
        answers: list[Completion] = []
        while (ask := POLICY.ask(state, turns, limits, answers)) is not None:
            prompt = Prompt(
                (PromptMessage("user", ask.input),),
                ask.instructions,
                schema=ask.schema,
                answer_tokens=ask.answer_tokens,
            )
            answers.append(OfflineModel().complete(prompt, Variant("v", "m"), timeout=1))
        assert len(answers) == limits_calls(limits)
        state = POLICY.absorb(state, turns, answers, limits)
    assert all(f"AB-{1000 + fold}{at}" in json.dumps(data_of(state)) for fold in range(2) for at in range(4))
    assert "AB-10010" in state.summary
    assert folds_of(state) == 2


def limits_calls(limits: MemoryLimits) -> int:
    return 2 if limits is TWO else 1
