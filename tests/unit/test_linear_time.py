"""What reads people's text takes time in proportion to it, whatever the text repeats.

Each limit is many times what the slowest of its texts takes: in time that is not linear, they take minutes, or by some
patterns seconds.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from chatmemory.text.cleaning import normalized
from chatmemory.text.figures import KnownFigures
from chatmemory.text.injections import KnownOrders
from chatmemory.text.links import KnownLinks
from chatmemory.text.thoughts import bare, visible_text
from conversations.openai_api.agreement import essence
from memory.pins.statements import END_CHARS, MAX_SENTENCE_CHARS, place_of, said_in, statements
from memory.policies.answers import object_in
from memory.policies.protocol import Refusal
from memory.recall.terms import passages, terms
from tests.support.exhaustive import first_row_of


def answer(text: str) -> None:
    visible_text(text)
    bare(text)
    with suppress(Refusal):
        object_in(text)


def lasting(text: str) -> None:
    for one in statements(text):
        assert len(one.text) <= max(MAX_SENTENCE_CHARS + 2, 2 * END_CHARS)


def indexed(text: str) -> None:
    terms(text)
    passages(text)


def long(chars: int, *pieces: str) -> list[str]:
    """Each piece, repeated to so many characters."""
    return [piece * (chars // len(piece)) for piece in pieces]


READERS: dict[str, tuple[Callable[[str], object], float, list[str]]] = {
    "agreement": (
        essence,
        0.5,
        [
            "<think>" * 14_000 + "</thinking>" * 9_000,
            *long(200_000, "<think>", "<think>a</think>", "【", "[1", "```\n", "{"),
        ],
    ),
    "answers": (
        answer,
        2,
        [
            "<summary>" * 40_000 + "</summary>",
            "Sure! " + " " * 400_000,
            "Summary" + " " * 400_000,
            "{" + '"a":1,' * 60_000,
            *long(400_000, "<|end|>", "<|channel|>analysis", "<think>", "</think>", "[THINK]<", "```\n", "`"),
            *long(400_000, "here is summary ", "#", '{"a":1}', '{"a":1,}'),
        ],
    ),
    "figures": (
        lambda text: KnownFigures([text]).new_in(text),
        5,
        long(200_000, "1,23,", "1", "1-", "a1-", "1,234", "a_", "1k ", "000"),
    ),
    "index": (
        indexed,
        2,
        long(
            100_000,
            *(
                "a",
                "a.",
                "_",
                "1,",
                " may 3 ",
                "1/",
                "ー",
                "'s",
                "\u0300",
                "=",
                "5月",
                "@",
                "\u0e31",
                "👩‍👩‍👧‍👦",
                "%",
                "x-",
            ),
        ),
    ),
    "links": (
        lambda text: KnownLinks([text]).new_in(text),
        5,
        long(200_000, "a.", "a", "@", "https://", ")", "](", "a@", "www.", "data:a/", "%41", "x.com/(", "道。", ". "),
    ),
    **{
        form: (partial(normalized, form), 0.5, long(100_000, "\u064b\u0591", "\uff9e\u0591", "a\u0301\u0323"))
        for form in ("NFC", "NFD", "NFKC", "NFKD")  # by `unicodedata` alone, 200,000 characters of the first take 25 s
    },
    "orders": (
        lambda text: KnownOrders([text]).new_in(text),
        5,
        long(40_000, "ignore ", "a", "system ", "<|", "[", "{'name':'", "> ", "===", "you are ", ". ", "\n"),
    ),
    "places": (partial(place_of, "a " * 199 + "b"), 0.5, long(1_000_000, "a ")),  # while other writers wait
    "quotes": (lambda text: said_in("z", f"{text}z"), 2, long(200_000, "a\n", "« ", '" ', "` ", "``` ", "a. ", "1. ")),
    "statements": (
        lasting,
        0.5,
        [
            "«" * 50_000 + "»" * 50_000,
            " " * 100_000 + "?",
            *long(140_000, "always ", "I prefer ", "when I ask ", ", and so I really really really "),
            *long(200_000, "a", "`", "\n", "never mind the ", "I'm not allergic to a ", "\U0001f600\u202e\ufeff"),
        ],
    ),
}
"""What is called, the seconds that it may take, and the texts."""
CASES = [
    case for read, seconds, texts in READERS.values() for case in first_row_of((read, seconds, text) for text in texts)
]
IDS = [f"{name} {text[:12]!a}" for name, (*_, texts) in READERS.items() for text in texts]


@pytest.mark.parametrize(("read", "seconds", "text"), CASES, ids=IDS)
def test_no_text_takes_longer_than_its_length_explains(
    read: Callable[[str], object], seconds: float, text: str
) -> None:
    began = time.process_time()
    read(text)
    assert time.process_time() - began < seconds
