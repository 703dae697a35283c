"""Counting never raises and clipping never exceeds its limit, for any text."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.text import tokens
from chatmemory.text.tokens import clip_end, clip_middle, count_tokens
from tests.support.exhaustive import first_of

ANY_TEXT = st.text(st.characters(exclude_categories=()))
BITS = st.sampled_from(
    ["word ", "😀", "\n", "/A\t", "é", "中文", ". ", " ", "👩‍👩‍👧", "<|endoftext|>", "1,234", "\ud83d"]
)
LONG_TEXT = st.lists(BITS, min_size=10, max_size=200).map("".join)
GIANTS = {
    "a million spaces": " " * 1_000_000,
    "one word": "a" * 200_000,
    "no word at all": "^" * 200_000,
    "line ends": "\r\n" * 100_000,
    "ideographs": "中" * 200_000,
    "combining marks": "e" + "\u0301" * 199_999,
    "joiners": "\u200d" * 200_000,
    "lone surrogates": "\ud800" * 200_000,
    "special tokens": "<|endoftext|>" * 15_000,
}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("hello world", 2),
        ("Hi, I need to change the passenger name on a flight reservation.", 14),
        ("<|endoftext|>", 7),  # a special token is read as text: never as the single token 199999
    ],
)
def test_tokens_equal_o200k_base(text: str, count: int) -> None:
    assert count_tokens(text) == count


@pytest.mark.parametrize("text", first_of(GIANTS.values()), ids=GIANTS)
@pytest.mark.exhaustive
def test_giants_are_counted_and_clipped(text: str) -> None:
    assert count_tokens(text) > 1000
    assert count_tokens(clip_middle(text, 100)) <= 100
    assert count_tokens(clip_end(text, 100)) <= 100


def test_a_long_text_counts_about_as_its_pieces() -> None:
    text = " Twelve flights leave at noon." * 20_000
    pieces = -(-len(text) // tokens.PIECE_CHARS)
    assert pieces > 1
    exact = 20_000 * count_tokens(" Twelve flights leave at noon.")
    assert 0 <= count_tokens(text) - exact <= 3 * pieces


@given(st.one_of(ANY_TEXT, LONG_TEXT), st.integers(0, 60))
def test_any_text_has_a_count_and_is_clipped_to_its_limit(text: str, limit: int) -> None:
    assert (count_tokens(text) == 0) == (text == "")
    for clip in (clip_middle, clip_end):
        clipped = clip(text, limit)
        assert count_tokens(clipped) <= limit
        assert clipped == text or count_tokens(text) > limit


@given(LONG_TEXT.filter(lambda text: "\ud83d" not in text), st.integers(20, 60))
def test_clipping_mangles_no_character(text: str, limit: int) -> None:
    assert "\ufffd" not in clip_middle(text, limit)
    assert text.startswith(clip_end(text, limit))


def test_the_middle_goes_and_says_so() -> None:
    text = " ".join(f"word{number}" for number in range(1000))
    clipped = clip_middle(text, 60)
    assert clipped.startswith("word0 word1 ")
    assert clipped.endswith(" word999")
    assert "tokens left out …]" in clipped
    assert count_tokens(clipped) > 45


@pytest.mark.parametrize(
    ("text", "limit", "cut"),
    [
        (
            "One two three four five. Six seven eight.",
            8,
            "One two three four five.",
        ),  # a sentence ends in the last third
        ("One. Two three four five six seven eight nine.", 8, "One. Two three four five six seven"),
        ("Nothing to cut.", 100, "Nothing to cut."),
        ("One two three", 0, ""),
    ],
)
def test_the_end_is_cut_where_a_reader_would(text: str, limit: int, cut: str) -> None:
    assert clip_end(text, limit) == cut


def test_missing_and_damaged_ranks_are_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = tmp_path / "ranks.tiktoken"
    monkeypatch.setattr(tokens, "RANKS_FILE", ranks)
    with pytest.raises(RuntimeError, match=r"cannot read .*ranks\.tiktoken"):
        tokens.load.__wrapped__()
    ranks.write_bytes(b"IQ== 0\n")
    with pytest.raises(RuntimeError, match="damaged"):
        tokens.load.__wrapped__()


@pytest.mark.parametrize("text", ["", "The garden is open.", "Käse 😀", "half a pair \ud83d", "<|endoftext|>"])
def test_a_text_that_comes_again_counts_as_before(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_counted", {})
    monkeypatch.setattr(tokens, "MAX_COUNTED", 1)
    expected = count_tokens(text)
    assert [tokens.count_repeated(text) for _ in range(2)] == [expected, expected]
    assert tokens.count_repeated(f"{text} and more") == count_tokens(f"{text} and more")
    assert len(tokens._counted) == 1
