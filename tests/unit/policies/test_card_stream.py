"""The card's block never shows, wherever a stream is cut, and nothing else of a reply is lost or altered."""

import itertools
import time
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chatmemory.llm import offline
from memory.policies.card import BLOCK_CHARS, CARD_CLOSE, CARD_OPEN, SPACE_CHARS, CardStream

GOOD = '{"goal":"Master vibrato"}'
BETTER = '{"goal":"Play in tune"}'
BLOCK = f"{CARD_OPEN}{GOOD}{CARD_CLOSE}"

pieces = st.sampled_from(
    [
        CARD_OPEN,
        CARD_CLOSE,
        GOOD,
        BLOCK,
        "<memory_Card>",
        "</Memory_CARD>",
        "<MEM",
        "<",
        "</",
        ">",
        " ",
        "\n\n",
        "</Think>",
        "</thi",
        *("İ", "a < b", "<MEMORY_CARDS>", "word ", " " * 70, "x" * 50, "{}", "\u2003"),
    ]
)
replies = st.lists(pieces | st.text(max_size=6), max_size=14).map("".join)


def filtered(*deltas: str, cut_off: bool = False) -> tuple[str, str | None]:
    """The visible text of a reply that arrives in `deltas`, and its card."""
    stream = CardStream()
    seen = [stream.feed(delta) for delta in deltas]
    rest, card = stream.finish(cut_off=cut_off)
    return "".join(seen) + rest, card


def cut(text: str, marks: Sequence[int]) -> list[str]:
    places = [0, *sorted(min(mark, len(text)) for mark in marks), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(places)]


@given(replies, st.lists(st.integers(0, 400), max_size=12), st.booleans())
@example(f"Hello \n{BLOCK}\n", list(range(80)), False)
@example(" " * 200 + BLOCK, list(range(0, 300, 7)), False)
def test_any_cut_gives_the_same(text: str, marks: list[int], cut_off: bool) -> None:
    whole = filtered(text, cut_off=cut_off)
    assert filtered(*cut(text, marks), cut_off=cut_off) == whole
    assert filtered(*text, cut_off=cut_off) == whole


@given(st.text())
def test_a_reply_without_a_block_is_as_it_was(text: str) -> None:
    assert filtered(*text) == (text, None)
    assert filtered(text) == (text, None)


@given(replies)
def test_card_stream_shows_text_without_blocks(text: str) -> None:
    seen, _ = filtered(text)
    assert CARD_OPEN.lower() not in text.lower() or len(seen) < len(text)
    left = iter(text)
    assert all(character in left for character in seen), "in order, nothing added"


@pytest.mark.parametrize(
    ("text", "seen", "card"),
    [
        (f"Hello\n\n{BLOCK}", "Hello", GOOD),
        (f"Hello {BLOCK}\n", "Hello\n", GOOD),
        (f"  Hello {BLOCK} there ", "  Hello there ", GOOD),
        (f"Hello<memory_card>{GOOD}</Memory_Card>", "Hello", GOOD),
        (f"A {BLOCK} B {CARD_OPEN}{BETTER}{CARD_CLOSE}", "A B", BETTER),
        (f"{BLOCK}A {CARD_OPEN}{CARD_CLOSE}", "A", CARD_OPEN),
        (f"A {CARD_OPEN}{GOOD}", "A", CARD_OPEN),
        (f"A {BLOCK} B {CARD_OPEN}{BETTER}", "A B", CARD_OPEN),
        (f"A {CARD_OPEN}{GOOD}</MEMORY_CARD", "A", CARD_OPEN),
        ("A <MEMORY_CARDS> is no card", "A <MEMORY_CARDS> is no card", None),
        ("A <MEMORY_CAR", "A <MEMORY_CAR", None),
        (f"A {CARD_CLOSE}", f"A {CARD_CLOSE}", None),
        ("", "", None),
        (BLOCK, "", GOOD),
        (f"<think>{BLOCK}</think>A", "<think></think>A", None),
        (
            f"<think>a {CARD_OPEN} goes last</think>A {BLOCK}",
            f"<think>a {CARD_OPEN} goes last</think>A",
            GOOD,
        ),
    ],
)
def test_card_stream_splits_visible_and_kept(text: str, seen: str, card: str | None) -> None:
    assert filtered(*text) == (seen, card)


@pytest.mark.parametrize(
    ("text", "seen"), [("A \n<MEMORY_", "A"), ("if a <", "if a <"), ("A ", "A "), ("A <b", "A <b")]
)
def test_card_stream_of_cut_reply_hides_partial_block(text: str, seen: str) -> None:
    assert filtered(*text, cut_off=True) == (seen, None)


def test_a_delta_that_cannot_begin_a_block_is_not_held_back() -> None:
    stream = CardStream()
    assert stream.feed("Hello,") == "Hello,"
    assert stream.feed(" world") == " world"
    assert stream.feed(" a <") == " a"
    assert stream.feed("b") == " <b"


def test_whitespace_is_held_back_to_a_limit_and_so_much_goes_with_the_block() -> None:
    assert filtered(" " * 100 + BLOCK) == (" " * (100 - SPACE_CHARS), GOOD)
    assert len(CardStream().feed(" " * 1000)) == 1000 - SPACE_CHARS


@pytest.mark.parametrize("step", [1, 997, 10**6])
def test_an_endless_block_takes_little_room_and_ends_where_it_ends(step: int) -> None:
    text = f"A {CARD_OPEN}" + '{"goal":"' + "x" * (3 * BLOCK_CHARS) + f'"}}{CARD_CLOSE} B'
    stream, most = CardStream(), 0
    started = time.monotonic()
    seen = ""
    for at in range(0, len(text), step):
        seen += stream.feed(text[at : at + step])
        most = max(most, len(stream._held))
    rest, card = stream.finish(cut_off=False)
    assert (seen + rest, len(card or "")) == ("A B", BLOCK_CHARS)
    assert most <= BLOCK_CHARS + len(CARD_CLOSE) + step
    assert time.monotonic() - started < 5


def test_the_built_in_model_writes_the_same_tags() -> None:
    assert (offline.CARD_OPEN, offline.CARD_CLOSE) == (CARD_OPEN, CARD_CLOSE)
