"""Both layouts of a summarizer's input are parsed back into what was put in."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.offline.parse_request import (
    READ_CHARS,
    READ_CHARS_EACH,
    read_messages,
    read_turns,
    request_from_turns,
)
from chatmemory.llm.offline.phrases import FOUND, NOTHING
from tests.unit.llm.makers import messages_input, turns_input

WORDS = (
    st.text("abc é中.\n", min_size=1)
    .map(lambda text: text.strip() or "x")
    .filter(lambda text: "\n\n" not in text)
)
PAIRS = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=4)


@given(WORDS, PAIRS)
def test_turns_come_back(existing: str, pairs: list[tuple[str, str]]) -> None:
    talk = read_turns(turns_input(existing, *pairs))
    assert talk.existing == existing
    assert [(each.text, each.by_user, each.turn) for each in talk.said] == [
        (text, by_user, number)
        for number, pair in enumerate(pairs)
        for text, by_user in zip(pair, (True, False), strict=True)
    ]


def test_what_the_model_says_of_itself_is_no_part_of_a_talk() -> None:
    pairs = [
        ("My code is AB-1.", NOTHING),
        ("Which code?", f"{FOUND}\n- My code is AB-1."),
        (NOTHING, "Fine."),
    ]
    talk = read_turns(turns_input("", *pairs))
    assert talk.texts == ["My code is AB-1.", "Which code?", NOTHING, "Fine."]
    assert [each.turn for each in talk.said] == [0, 1, 2, 2]
    assert [(each.text, each.turn) for each in talk.quoted] == [("- My code is AB-1.", 1)]


@given(st.dictionaries(st.text("abc_ ", min_size=1), st.text("ab:1", min_size=1), max_size=3), PAIRS)
def test_facts_and_messages_come_back(facts: dict[str, str], pairs: list[tuple[str, str]]) -> None:
    talk = read_messages(messages_input(facts, *pairs))
    assert dict(talk.facts) == facts
    assert [each.text.rstrip("\n") for each in talk.said] == [text for pair in pairs for text in pair]
    assert [each.by_user for each in talk.said] == [True, False] * len(pairs)


@pytest.mark.parametrize("text", ["", "Hello", "## Conversation:\n[user]: x"])
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a summarizer input"):
        read_turns(text)
    with pytest.raises(ValueError, match="neither facts"):
        read_messages(text)


def test_the_newest_is_read_of_what_is_too_long() -> None:
    pairs = [(f"{number} " + "x" * READ_CHARS_EACH * 2, "") for number in range(20)]
    said = request_from_turns("", pairs).said
    assert said[-1].text.startswith("19 ")
    assert sum(len(each.text) for each in said) <= READ_CHARS
    assert max(len(each.text) for each in said) == READ_CHARS_EACH


@pytest.mark.exhaustive
def test_ten_megabytes_are_read_in_no_time() -> None:
    text = turns_input("", ("my id is A1B2. " * 700_000, "[user]: " * 100))
    before = time.process_time()
    read_turns(text)
    assert time.process_time() - before < 3
