"""The differences between two texts."""

import time

from hypothesis import given
from hypothesis import strategies as st

from memory.revisions.diff import MAX_WORDS, DiffPiece, word_diff

words = st.text() | st.lists(st.sampled_from(["the", "hall", " ", "\n", "19:00", "–", "é", ","])).map("".join)


@given(words, words)
def test_the_pieces_give_both_texts_back(older: str, newer: str) -> None:
    pieces = word_diff(older, newer)
    assert "".join(piece.text for piece in pieces if piece.op != "insert") == older
    assert "".join(piece.text for piece in pieces if piece.op != "delete") == newer


def test_word_diff_marks_words() -> None:
    assert word_diff("The hall is booked", "The room is booked") == [
        DiffPiece("equal", "The "),
        DiffPiece("delete", "hall "),
        DiffPiece("insert", "room "),
        DiffPiece("equal", "is booked"),
    ]


def test_a_line_that_is_added_changes_nothing_of_the_line_before() -> None:
    pieces = word_diff("- At 11:15.", "- At 11:15.\n- On Sunday.")
    assert pieces == [("equal", "- At 11:15."), ("insert", "\n- On Sunday.")]


def test_a_giant_text_is_not_compared_but_shown_as_a_whole() -> None:
    giant = "word " * (MAX_WORDS + 1)
    assert word_diff(giant, giant) == [DiffPiece("equal", giant)]
    assert word_diff(giant, "short") == [DiffPiece("delete", giant), DiffPiece("insert", "short")]


def test_words_that_both_have_once_hold_long_texts_together() -> None:
    chapters = [f"Chapter{n} " + "and so it goes on and on. " * 60 for n in range(10)]
    older = "".join(chapters)
    newer = older.replace("Chapter7 and so", "Chapter7 but then")
    changed = [piece for piece in word_diff(older, newer) if piece.op != "equal"]
    assert changed == [DiffPiece("delete", "and so "), DiffPiece("insert", "but then ")]


def test_no_texts_take_long() -> None:
    """Few words, repeated many times: the slowest input for a full comparison."""
    for words in (2, 110):
        older = "".join(f"w{n * n % words} " for n in range(MAX_WORDS // 2))
        newer = "".join(f"w{n * 7 % words} " for n in range(MAX_WORDS // 2))
        started = time.process_time()
        pieces = word_diff(older, newer)
        assert time.process_time() - started < 10, "a second or two; a full comparison takes minutes"
        assert "".join(piece.text for piece in pieces if piece.op != "insert") == older
        assert "".join(piece.text for piece in pieces if piece.op != "delete") == newer
