"""The policy `progressive` (seed 001): when it folds and what, what it asks, and how it uses any answer."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from chatmemory.llm.protocol import Completion
from chatmemory.text.tokens import count_tokens
from memory.history.turns import Turn
from memory.limits import MemoryLimits
from memory.policies import POLICIES
from memory.policies.progressive import KINDS, MOST_WINDOW_TURNS, SCHEMA, ProgressiveNumbers
from memory.policies.protocol import (
    Refusal,
    State,
    count_before_window,
    counts_of,
    is_due,
    state_tokens,
    window_of,
)
from tests.support.fakes.summarizer import read_turns
from tests.unit.context.makers import make_turn, turn_of, turns_of, words

LIMITS = MemoryLimits()
POLICY = POLICIES["progressive"]
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
    given: dict[type, Any] = {ProgressiveNumbers: ProgressiveNumbers(**numbers)}
    return replace(LIMITS, numbers=given, instructions_tokens=instructions_tokens)


def completion(text: str) -> Completion:
    return Completion(text, "nano")


def both(summary: str = NARRATIVE, data: Any = None, **kinds: Any) -> Completion:
    return completion(json.dumps({"important_data": data or kinds, "summary": summary}))


def absorbed(answer: Completion, state: State = KNOWN) -> State:
    return POLICY.absorb(state, TURNS, answer, LIMITS)


def data_of(state: State) -> dict[str, Any]:
    data = state.data["important_data"]
    assert isinstance(data, dict)
    return data


def texts_of(state: State) -> list[str]:
    return [section.text for section in POLICY.render(state)]


def is_over(turns: Sequence[Turn], limits: MemoryLimits = LIMITS, state: State | None = None) -> bool:
    state = state or State()
    return is_due(POLICY, state, counts_of(POLICY, state, turns, limits), limits)


def window(turns: Sequence[Turn], limits: MemoryLimits = LIMITS, state: State | None = None) -> list[Turn]:
    return list(turns[-window_of(POLICY, state or State(), turns, limits) :])


def tokens_of(turns: Sequence[Turn]) -> int:
    return sum(turn.tokens for turn in turns)


# When it folds, and what


def test_fifteen_pairs_of_long_messages_are_due_and_two_short_ones_are_not() -> None:
    """Seed 001, phase 3."""
    assert is_over(turns_of(*[400] * 15))
    assert not is_over([make_turn(0, "Hello", "Hi!")])


def test_instructions_data_summary_and_unfolded_turns_count_together() -> None:
    turns, fixed = turns_of(*[242] * 10), state_tokens(POLICY, KNOWN)
    assert tokens_of(turns) == 2500
    over = [is_over(turns, limits_with(threshold=2500 + fixed + less), KNOWN) for less in (0, -1)]
    assert over == [False, True]
    spare = 3000 - 2500 - fixed
    assert [is_over(turns, limits_with(spare - 4 + more), KNOWN) for more in (0, 1)] == [False, True]


def test_progressive_window_fits_its_tokens() -> None:
    """Seed 001, phase 3: the last messages that fit 2500 tokens, here with a threshold that has room for them."""
    turns = turns_of(*[292] * 30)
    kept = window(turns, limits_with(threshold=10_000))
    assert 2500 - 300 < tokens_of(kept) <= 2500
    assert kept == turns[-8:]
    assert window(turns, limits_with(threshold=10_000, window_tokens=700)) == turns[-2:]


def test_the_window_leaves_the_whole_at_two_thirds_of_the_threshold() -> None:
    turns = turns_of(*[92] * 30)
    assert tokens_of(window(turns)) == 1000  # 2000 minus the expected size of the state
    full = State(words(900), {"important_data": {"important_facts": [words(50)]}, "summary_version": 9})
    beside = state_tokens(POLICY, full)
    assert 2000 - 100 < beside + tokens_of(window(turns, state=full)) <= 2000
    assert 2000 - 100 < 504 + beside + tokens_of(window(turns, limits_with(500), full)) <= 2000


def test_a_window_holds_a_turn_at_least_and_fifty_at_most() -> None:
    assert len(window(turns_of(*[4000] * 3))) == len(window(turns_of(*[10] * 3), limits_with(window_tokens=0))) == 1
    assert len(window(turns_of(*[4] * 200))) == MOST_WINDOW_TURNS
    giant = turn_of(3, 5000)
    assert not is_over([giant])
    assert count_before_window(POLICY, State(), [*turns_of(*[20] * 3), giant], LIMITS) == 3


@pytest.mark.parametrize("instructions", [1000, 2990, 20_000])
def test_long_instructions_do_not_make_a_fold_of_each_turn(instructions: int) -> None:
    """Counted in full, they would leave room for hardly a turn under the threshold."""
    for state in (State(), State(words(1000), {"important_data": {}, "summary_version": 9})):
        limits = limits_with(instructions)
        folds, loose = 0, list[Turn]()
        for number in range(60):
            loose.append(turn_of(number, 200))
            if is_over(loose, limits, state):
                loose = loose[count_before_window(POLICY, state, loose, limits) :]
                folds += 1
        assert 0 < folds <= 60 * 208 // 750


def test_after_a_fold_nothing_is_due_before_a_third_of_the_threshold_was_said() -> None:
    """Seed 001, phase 6: five more messages trigger nothing, ten to fifteen do."""
    turns = turns_of(*[292] * 11)
    assert is_over(turns)
    state = State(words(170), {"important_data": {"important_facts": [words(55)]}, "summary_version": 1})
    loose = turns[count_before_window(POLICY, State(), turns, LIMITS) :]
    assert not is_over([*loose, *turns_of(*[192] * 3)], state=state)
    assert is_over([*loose, *turns_of(*[192] * 10)], state=state)


# What is asked


@pytest.mark.parametrize(
    ("version", "low", "high", "most"),
    [(0, 100, 150, 225), (1, 200, 250, 374), (3, 400, 450, 675), (4, 500, 750, 1125), (90, 500, 750, 1125)],
)
def test_each_fold_has_the_target_of_the_seed_and_a_summary_far_over_it_is_cut(
    version: int, low: int, high: int, most: int
) -> None:
    state = State(NARRATIVE, {"summary_version": version}) if version else State()
    ask = POLICY.ask(state, TURNS, LIMITS)
    assert f"Aim at {low} to {high} words" in ask.instructions_under(LIMITS)
    assert high * 4 // 3 <= ask.answer_tokens <= high * 4 // 3 + 300 < ask.max_output_tokens
    after = absorbed(both("The order 3RK2T9 was changed to Lima. " * 400), state)
    assert after.summary.endswith("Lima.")
    assert high < count_tokens(after.summary) <= most
    assert after.data["summary_version"] == version + 1


def test_progressive_call_asks_for_both_and_shows_state() -> None:
    ask = POLICY.ask(KNOWN, TURNS, LIMITS)
    assert ask.schema is SCHEMA
    assert read_turns(ask.input) == (
        NARRATIVE,
        [("I prefer dark mode. Read https://example.org/a.", "Noted.")],
    )
    assert all(f"- {kind.name}: " in ask.instructions_under(LIMITS) for kind in KINDS)


PROSE = "They spoke of tides and of the moon. " * 20
LINKS = ["https://example.org/a", "N/A", "none", "url1"]

# Answers that cannot be used

BAD: list[tuple[Completion, str]] = [
    (completion("Noted."), "wrong_shape"),
    (completion('{"important_data": {"entities": ["Lima"]'), "wrong_shape"),
    (completion('{"other": 1}'), "wrong_shape"),
    (completion("[]"), "wrong_shape"),
    (completion('{"important_data": 5, "summary": ["x"]}'), "wrong_shape"),
    (both(""), "empty"),
    (both("NONE", entities=["Lima"]), "empty"),
]


@pytest.mark.parametrize(("answer", "reason"), BAD)
def test_without_a_summary_the_old_state_stands(answer: Completion, reason: str) -> None:
    with pytest.raises(Refusal) as caught:
        absorbed(answer)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("answer", "summary", "kind", "held"),
    [
        pytest.param(completion(PROSE), PROSE.strip(), "user_preferences", {"theme": "dark"}, id="prose"),
        pytest.param(both("On.", data="none"), "On.", "user_preferences", {"theme": "dark"}, id="no data"),
        pytest.param(
            completion('{"summary": "On.", "entities": ["Lima"]}'), "On.", "entities", ["Lima"], id="beside it"
        ),
        pytest.param(both("On.", source_urls=LINKS), "On.", "source_urls", ["url1", LINKS[0]], id="no links"),
    ],
)
def test_what_can_be_read_of_an_answer_is_used_and_the_rest_stays(
    answer: Completion, summary: str, kind: str, held: Any
) -> None:
    state = absorbed(answer)
    assert (state.summary, data_of(state)[kind]) == (summary, held)


# What is kept


def test_two_folds_lose_nothing_of_the_first() -> None:
    """Seed 001, test scenario 4. PostgreSQL does not keep the order of keys, but the oldest are to be dropped first."""
    first = both(
        user_preferences={"zeta": "dark"},
        document_structure={"sections": ["Intro", "Methods", "Results", "Conclusion"]},
        source_urls=["https://example.org/a"],
    )
    state = absorbed(first, State())
    state = State(state.summary, json.loads(json.dumps(state.data, sort_keys=True)))
    second = both(
        user_preferences={"alpha": "Arial", "Zeta": "light"},
        key_decisions=["They go with LaTeX."],
        source_urls=["https://example.org/b", "https://example.org/a"],
    )
    data = data_of(absorbed(second, state))
    assert list(data["user_preferences"].items()) == [("zeta", "light"), ("alpha", "Arial")]
    assert data["document_structure"] == {"sections": ["Intro", "Methods", "Results", "Conclusion"]}
    assert data["source_urls"] == ["https://example.org/a", "https://example.org/b"]
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
        state = POLICY.absorb(state, TURNS, answer, LIMITS)
        sizes = [count_tokens(text) for text in texts_of(state)]
        assert sizes[0] <= 600 + 15
        assert sizes[1] <= 1125 + 10
    assert "Fact 59" in json.dumps(data_of(state))
    assert len(json.dumps(state.to_json())) < 10_000


@pytest.mark.parametrize("stored", [None, "3", -1, 0, 1.5, True, [], {}, 10**30])
def test_a_damaged_version_is_counted_anew(stored: Any) -> None:
    assert absorbed(both(), State("x", {"summary_version": stored})).data["summary_version"] == 2
    assert absorbed(both(), State("", {"summary_version": 4})).data["summary_version"] == 1
