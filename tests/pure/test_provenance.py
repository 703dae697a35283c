"""Where a revision came from: the chain of hashes and what survived, in one bite or in many."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from memory.policies import State, get_policy
from memory.provenance import retained_in, retained_of_all, source_hash
from memory.turns import Turn

CHUNKED = get_policy("chunked")
EMPTY = Turn(1, 2, "", "", False, 0, 0, (), None)


def turn(user: str, assistant: str = "") -> Turn:
    return replace(EMPTY, user=user, assistant=assistant)


texts = st.text(max_size=20)


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


def test_what_survived_is_told_over_one_bite_and_over_many() -> None:
    state = State("Booked flight HAT062 for $120.")
    first, second = (
        [turn("Book HAT062 please", "It is $120.")],
        [turn("My id is 3RK2T9", "Noted, HAT062 again.")],
    )
    one = retained_in(CHUNKED, state, [*first, *second])
    assert {"HAT062", "$120"} <= set(one.kept)
    assert "3RK2T9" in one.lost
    many = retained_of_all(CHUNKED, state, [first, second])
    assert set(many.kept) == set(one.kept)
    assert set(many.lost) == set(one.lost)
    assert 0 < many.share < 1


def test_nothing_to_keep_is_all_kept() -> None:
    assert retained_of_all(CHUNKED, State(), [[]]).share == 1.0
