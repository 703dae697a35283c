"""What changed between two texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory.worddiff import MOST_WORDS, Piece, word_diff

words = st.lists(st.sampled_from(["the", "hall", " ", "\n", "19:00", "–", "é", ","])).map("".join)


@given(words, words)
def test_the_pieces_give_both_texts_back(older: str, newer: str) -> None:
    pieces = word_diff(older, newer)
    assert "".join(piece.text for piece in pieces if piece.kind != "ins") == older
    assert "".join(piece.text for piece in pieces if piece.kind != "del") == newer


@given(st.text(), st.text())
def test_it_loses_nothing_of_any_text(older: str, newer: str) -> None:
    pieces = word_diff(older, newer)
    assert "".join(piece.text for piece in pieces if piece.kind != "del") == newer


def test_it_marks_words_not_letters() -> None:
    assert word_diff("The hall is booked", "The room is booked") == [
        Piece("same", "The "),
        Piece("del", "hall"),
        Piece("ins", "room"),
        Piece("same", " is booked"),
    ]


def test_a_giant_text_is_not_compared_but_shown_as_a_whole() -> None:
    giant = "word " * MOST_WORDS
    assert word_diff(giant, giant) == [Piece("same", giant)]
    assert word_diff(giant, "short") == [Piece("del", giant), Piece("ins", "short")]
