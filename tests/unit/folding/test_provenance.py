"""The provenance of a revision: the hash chain over its turns, independent of how they were split into bites."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from memory.folding.answer_checks import source_hash
from memory.history.turns import Turn

texts = st.text(max_size=20)


def turn(user: str, assistant: str) -> Turn:
    return Turn(1, 2, user, assistant, False, 0, 0, (), None)


@given(st.lists(st.tuples(texts, texts), max_size=8), st.integers(0, 8))
def test_the_hash_is_the_same_in_whatever_bites(pairs: list[tuple[str, str]], cut: int) -> None:
    turns = [turn(*pair) for pair in pairs]
    assert source_hash(turns[cut:], source_hash(turns[:cut])) == source_hash(turns)


@given(texts, texts, texts, texts)
def test_the_hash_knows_who_said_what_and_in_which_turn(a: str, b: str, c: str, d: str) -> None:
    if (a, b) != (c, d):
        assert source_hash([turn(a, b)]) != source_hash([turn(c, d)])
        assert source_hash([turn(a, b), turn(c, d)]) != source_hash([turn(c, d), turn(a, b)])


def test_a_reply_that_was_cut_off_is_another_text() -> None:
    assert source_hash([turn("a", "b")]) != source_hash([replace(turn("a", "b"), cut_off=True)])


def test_no_turns_have_no_hash() -> None:
    assert source_hash([]) == ""
