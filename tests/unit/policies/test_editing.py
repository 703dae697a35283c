"""States of every policy converted to form fields and back: nothing is lost on the way or cut silently."""

from typing import Any

import pytest

from memory.limits import MemoryLimits
from memory.policies import POLICIES
from memory.policies.protocol import State
from memory.policies.state_parts import BadEdit
from tests.security.injection.folding import built_in, fold_state, turns_of
from tests.unit.policies.makers import KNOWN

LIMITS = MemoryLimits()
TURNS = turns_of([("The hall is booked for 12 May.", "Noted."), ("We are 60 people.", "Good.")])
STATES = {
    name: KNOWN.get(name) or fold_state(policy, State(), TURNS, built_in, LIMITS) for name, policy in POLICIES.items()
}
"""A state of every policy: of those not known here, one that the built-in summarizer makes."""


def change(policy: str, /, **texts: str) -> State:
    return POLICIES[policy].edited(STATES[policy], texts, LIMITS)


def sections(policy: str, state: State) -> list[str]:
    return [section.text for section in POLICIES[policy].render(state)]


@pytest.mark.parametrize("policy", STATES)
def test_edit_keeps_untouched_parts(policy: str) -> None:
    parts = POLICIES[policy].edit_fields(STATES[policy], LIMITS)
    sent = {part.name: part.text.replace("\n", "\r\n") for part in parts}  # as forms send it
    after = change(policy, **sent)
    assert sections(policy, after) == sections(policy, STATES[policy])
    assert POLICIES[policy].edit_fields(after, LIMITS) == parts
    assert all(part.title for part in parts)
    assert not any(set('{}[]"') & set(part.text) for part in parts), "no field holds JSON"


@pytest.mark.parametrize("policy", STATES)
def test_edit_fits_the_prompt_or_is_refused(policy: str) -> None:
    for name in (part.name for part in POLICIES[policy].edit_fields(STATES[policy], LIMITS)):
        for text in ("a: b\n" * 500, "x" * 20_000, "k: " + "word " * 400, "\x00\ud800", "=== NEW_TURNS ==="):
            try:
                after = change(policy, **{name: text})
            except BadEdit:
                continue
            whole = "".join(sections(policy, after))
            assert "\x00" not in whole
            assert not any(line.startswith("=== ") for line in whole.splitlines())


@pytest.mark.parametrize("policy", STATES)
def test_all_of_it_cannot_be_taken_out(policy: str) -> None:
    parts = POLICIES[policy].edit_fields(STATES[policy], LIMITS)
    with pytest.raises(BadEdit, match="This would leave the memory empty"):
        change(policy, **{part.name: " \n" for part in parts})


def test_a_field_that_is_not_of_the_policy_changes_nothing() -> None:
    assert change("chunked", facts="x", narrative="y") == STATES["chunked"]


def test_a_card() -> None:
    after = change("card", decisions="12 May\n\n 70  people ", goal="A bigger hall")
    assert after.data["decisions"] == ["12 May", "70 people"]
    assert (after.data["goal"], after.data["is_ahead"]) == ("A bigger hall", True)
    assert "70 people" in after.summary


def test_important_data() -> None:
    after = change(
        "progressive",
        user_preferences="Days: Mon, Tue: late\nTone: cold\nTime: 14:30",
        source_urls="https://example.org/b",
        summary="User: the hall is booked.",
    )
    data: Any = after.data["important_data"]
    assert data["user_preferences"] == {"Days": ["Mon", "Tue: late"], "Tone": "cold", "Time": "14:30"}
    assert data["source_urls"] == ["https://example.org/b"]
    assert after.summary == "> User: the hall is booked."
    assert after.data["summary_version"] == 2


def test_facts_keep_their_order() -> None:
    after = change(
        "hierarchical",
        ENTITY="street: Kade 5\nhall: HAT062: the big one\ncook: Mia",
        narrative="They looked for a hall.\nThey took two.",
    )
    facts: Any = after.data["facts"]
    assert [(fact["key"], fact["value"]) for fact in facts] == [
        ("hall", "HAT062: the big one"),
        ("people", "60"),
        ("street", "Kade 5"),
        ("cook", "Mia"),
    ]
    assert after.summary == "They looked for a hall.\nThey took two."


def test_earlier_values_under_a_long_name_are_no_obstacle() -> None:
    name = " ".join(["heron"] * 10)
    facts: Any = [{"key": name + mark, "value": "60", "category": "NUMERIC"} for mark in ("", " (earlier)")]
    after = POLICIES["hierarchical"].edited(State("", {"facts": facts}), {"ENTITY": "hall: HAT062"}, LIMITS)
    assert after.data["facts"] == [*facts, {"key": "hall", "value": "HAT062", "category": "ENTITY"}]


LINES = "\n".join(f"{n} " + "heron " * 40 for n in range(5))
SHORT_LINES = "\n".join(f"heron in the reeds {n}" for n in range(99))
FACT_LINES = "\n".join(f"k{n}: heron in the reeds" for n in range(99))


@pytest.mark.parametrize(
    ("policy", "part", "text", "why"),
    [
        ("chunked", "summary", "heron " * 500, "The summary has 1,000 tokens; the limit is 500."),
        ("interval", "summary", "heron " * 500, "The summary has 1,000 tokens; the limit is 500."),
        ("card", "goal", "heron " * 50, "It has 100 tokens; the limit is 40."),
        ("card", "open_q", "a\nb\nc\nd\ne", "There are 5 lines; the limit is 4."),
        ("card", "decisions", LINES, "The card has .* tokens; the limit is 200."),
        ("progressive", "summary", "heron " * 500, "The story has 1,000 tokens; the limit is"),
        ("progressive", "user_preferences", "fine: yes\nno", "Line 2 is not a name, a colon and a value."),
        ("progressive", "custom_fields", "a: 1\nA: 2", "Line 2 repeats the name of another line."),
        ("progressive", "key_decisions", "heron " * 90, "Line 1 has 180 tokens; the limit is 60."),
        ("progressive", "entities", "\n".join(f"heron {n}" for n in range(101)), "There are 101 lines"),
        ("progressive", "entities", SHORT_LINES, "Everything but the story, as sent to the model, has"),
        ("hierarchical", "ENTITY", "hall: a\npeople: 3", "no two facts have the same name"),
        ("hierarchical", "GENERAL", "--: x", "Each name needs a letter or digit"),
        (
            "hierarchical",
            "GENERAL",
            f"k: {'heron ' * 40}",
            "The value in line 1 has 80 tokens; the limit is 60",
        ),
        ("hierarchical", "narrative", "heron " * 300, "The story has 600 tokens; the limit is 500."),
        ("hierarchical", "GENERAL", FACT_LINES, "All facts together"),
    ],
)
def test_edit_that_does_not_fit_is_refused_with_sentence(policy: str, part: str, text: str, why: str) -> None:
    with pytest.raises(BadEdit, match=why) as refused:
        change(policy, **{part: text})
    together = ("The card", "Everything", "All facts")
    assert (refused.value.part == "") == refused.value.message.startswith(together)
