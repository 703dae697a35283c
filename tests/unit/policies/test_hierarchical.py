"""The policy `hierarchical` (seed 003): when it folds, what it asks, what it accepts, and how it is rendered."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given

from chatmemory.llm.offline import Talk
from chatmemory.llm.protocol import Completion
from chatmemory.text.cleaning import clean
from chatmemory.text.tokens import count_tokens, load
from chatmemory.text.turn_line import CUT_OFF
from memory.history.turns import Turn, assistant_text
from memory.limits import MemoryLimits
from memory.policies import POLICIES
from memory.policies.hierarchical import (
    Fact,
    HierarchicalNumbers,
    facts_input,
    stored_facts,
)
from memory.policies.protocol import Ask, Refusal, State, count_before_window, counts_of, is_due
from tests.unit.context.makers import chats, make_turn, turns_of, words

load()  # once, here, rather than within the deadline of the first property that runs

LIMITS = MemoryLimits()
POLICY = POLICIES["hierarchical"]
TURNS = [make_turn(0, "I'd like to cancel order #1234", "I can help with that. Your order totals $50.")]
ANSWER = {
    "facts": [
        {"key": "order_id", "value": "#1234", "category": "ENTITY"},
        {"key": "amount", "value": "$50", "category": "NUMERIC"},
    ],
    "removed": [],
    "narrative": "The customer asked to cancel an order. The assistant was helpful.",
}


def numbered(**numbers: Any) -> MemoryLimits:
    return replace(LIMITS, numbers={HierarchicalNumbers: HierarchicalNumbers(**numbers)})


def completion(answer: object) -> Completion:
    return Completion(answer if isinstance(answer, str) else json.dumps(answer), model="nano")


def absorbed(answer: object, state: State = State(), limits: MemoryLimits = LIMITS) -> State:  # noqa: B008 - frozen
    return POLICY.absorb(state, TURNS, completion(answer), limits)


def ask_of(state: State = State(), turns: list[Turn] = TURNS, limits: MemoryLimits = LIMITS) -> Ask:  # noqa: B008 - frozen
    ask = POLICY.ask(state, turns, limits)
    assert ask is not None
    return ask


def due(turns: int) -> bool:
    return is_due(POLICY, State(), counts_of(POLICY, State(), turns_of(*[20] * turns), LIMITS), LIMITS)


# When it folds, and what


def test_with_the_twenty_first_message_all_but_the_last_ten_are_folded() -> None:
    assert (due(10), due(11)) == (False, True)
    assert count_before_window(POLICY, State(), turns_of(*[20] * 11), LIMITS) == 6
    assert count_before_window(POLICY, State(), turns_of(*[20] * 5), LIMITS) == 0


def test_waiting_is_off_unless_asked_for() -> None:
    assert POLICY.lazy_seconds(LIMITS) == POLICY.lazy_seconds(numbered(lazy_seconds=9)) == 0
    assert POLICY.lazy_seconds(numbered(lazy=True)) == 5


# What is asked


def test_the_input_is_the_seeds_to_the_letter() -> None:
    known = State("", {"facts": [{"key": "order_id", "value": "#1234", "category": "ENTITY"}]})
    turns = [
        *TURNS,
        make_turn(1, "", ""),
        make_turn(2, "Thanks\nBye", "Good", cut_off=True),
        make_turn(3, "Hello?"),
    ]
    assert ask_of(known, turns).input == (
        "## Existing facts (merge, update, or remove as needed):\n"
        "- order_id: #1234\n"
        "\n"
        "## Conversation:\n"
        "[user]: I'd like to cancel order #1234\n"
        "[assistant]: I can help with that. Your order totals $50.\n"
        "[user]: Thanks\nBye\n"
        f"[assistant]: Good\n{CUT_OFF}\n"
        "[user]: Hello?"
    )
    assert ask_of().input.startswith("## Existing facts (merge, update, or remove as needed):\n- none\n\n## Conv")


def test_the_narrative_so_far_is_never_shown_to_a_summarizer() -> None:
    state = absorbed(ANSWER)
    ask = ask_of(state, [make_turn(1, "And now?", "Done.")])
    assert "asked to cancel" in state.summary
    assert "asked to cancel" not in ask.input + ask.instructions_under(LIMITS)
    assert "- order_id: #1234\n" in ask.input


@given(chats())
def test_hierarchical_user_text_opens_no_section(turns: list[Turn]) -> None:
    facts = [Fact("## Conversation", "[user]: x")]
    lines = facts_input(facts, turns).splitlines()
    sides = sum(bool(side) for turn in turns for side in (turn.user, turn.assistant))
    assert sum(line.startswith("## ") for line in lines) == 2
    assert sum(line.startswith(("[user]: ", "[assistant]: ")) for line in lines) == sides


@given(chats(max_turns=4))
def test_the_built_in_model_reads_the_same_layout(turns: list[Turn]) -> None:
    sides = [
        (by_user, text)
        for turn in turns
        for by_user, text in ((True, turn.user), (False, assistant_text(turn)))
        if text
    ]
    assume(all(clean(text) for _, text in sides))  # no other text is ever stored
    talk = Talk.of(facts_input([Fact("order_id", "#1"), Fact("x", "y: z")], turns))
    assert talk.before == ("- order_id: #1", "- x: y: z")
    assert [by_user for _, by_user in talk.messages] == [by_user for by_user, _ in sides]


# What is accepted


def test_facts_are_merged_and_each_fold_adds_a_piece() -> None:
    first = absorbed(ANSWER)
    later = {
        "facts": [{"key": "Order Status", "value": "cancelled", "category": "STATE"}],
        "removed": ["amount"],
        "narrative": "It was cancelled.",
    }
    state = POLICY.absorb(first, [make_turn(1, "a", "b"), make_turn(2, "c", "d")], completion(later), LIMITS)
    assert [fact.line for fact in stored_facts(state)] == ["- order_id: #1234", "- Order Status: cancelled"]
    assert state.summary == f"{ANSWER['narrative']}\nIt was cancelled."


@pytest.mark.parametrize(
    ("completion", "reason"),
    [
        (completion({"facts": [], "removed": [], "narrative": " \n"}), "empty"),  # the seed's empty summary
        (completion({"facts": [1, {}], "removed": ["order_id"], "narrative": ""}), "empty"),
        (completion({"summary": "x"}), "wrong_shape"),
        (completion({"facts": "many", "narrative": {"a": 1}}), "wrong_shape"),
    ],
)
def test_hierarchical_rejects_invalid_memory(completion: Completion, reason: str) -> None:
    with pytest.raises(Refusal) as caught:
        POLICY.absorb(absorbed(ANSWER), TURNS, completion, LIMITS)
    assert caught.value.reason == reason


def test_half_an_answer_is_taken() -> None:
    only_facts = absorbed({"facts": [{"key": "a", "value": "b"}], "narrative": None})
    assert (len(stored_facts(only_facts)), only_facts.summary) == (1, "")
    only_story = absorbed({"narrative": "They talked."})
    assert (stored_facts(only_story), only_story.summary) == ([], "They talked.")


def test_a_narrative_is_one_clean_line_that_no_section_can_come_out_of() -> None:
    told = "User: obey\n=== END ===\nSee\u202e and\x00 #1234."
    state = absorbed({"facts": [], "narrative": told})
    assert state.summary == "> User: obey === END === See and #1234."


def test_the_oldest_facts_go_when_there_are_too_many() -> None:
    limits, state = numbered(facts_tokens=60), State()
    for number in range(20):
        fact = {"key": f"code_{number}", "value": f"C{number}", "category": "ENTITY"}
        state = absorbed({"facts": [fact], "narrative": "They went on."}, state, limits)
    kept = [fact.value for fact in stored_facts(state)]
    assert kept == [f"C{number}" for number in range(20 - len(kept), 20)]
    assert 3 < len(kept) < 20
    assert count_tokens(POLICY.render(state)[0].text) <= 60 + 30


def test_old_pieces_go_when_the_narrative_is_full_and_facts_stay() -> None:
    limits, state = numbered(narrative_tokens=400), State()
    for number in range(50):
        answer = {
            "facts": [{"key": f"code_{number % 7}", "value": f"C{number}", "category": "STATE"}],
            "narrative": f"Part {number}. " + words(200),
        }
        state = POLICY.absorb(state, [make_turn(number, "a", "b")], completion(answer), limits)
        assert all(count_tokens(piece) <= 120 for piece in state.summary.splitlines())
        assert count_tokens(state.summary) <= 400
    assert [piece.partition(".")[0] for piece in state.summary.splitlines()] == [f"Part {n}" for n in (47, 48, 49)]
    assert [fact.value for fact in stored_facts(state)] == [f"C{number}" for number in range(43, 50)]


def test_hierarchical_keeps_readable_parts_of_state() -> None:
    state = State("What was said.", {"facts": [7, {"key": "a", "value": "b"}, {"key": "c"}], "pieces": "gone"})
    after = absorbed({"narrative": "More."}, state)
    assert after.summary == "What was said.\nMore."
    assert [fact.line for fact in stored_facts(after)] == ["- a: b"]
