"""Salient spans are found, and carried into summaries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.text.spans import LIST_CAP, SpanIndex, retained, spans
from tests.support.exhaustive import first_of

ANY_TEXT = st.text(st.characters(exclude_categories=()))
WORDS = st.sampled_from(["\n", *"the Anya Garcia 12 kg $5 A1B2 . , @ a@b.co of May 2024 中1 ( /x/y".split()])
PROSE = st.lists(WORDS, max_size=60).map(" ".join)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("my reservation is 3RK2T9, flight HAT062.", ["3RK2T9", "HAT062"]),
        ("my user id is anya_garcia_5901", ["anya_garcia_5901"]),
        (
            "order #1234 and 0192f0c1-7d9e-7a3b-8c4d-5e6f70819203",
            ["#1234", "0192f0c1-7d9e-7a3b-8c4d-5e6f70819203"],
        ),
        ("on 1992-11-12 at 10:30 am, or 3pm", ["1992-11-12", "10:30 am", "3pm"]),
        ("on May 20, 2024 or 5 June 2025", ["May 20, 2024", "5 June 2025"]),
        ("it costs $1,200.50, € 30 or 45 EUR", ["$1,200.50", "€ 30", "45 EUR"]),
        ("it weighs 2.5 kg, 50% of 80 points", ["2.5 kg", "50%", "80 points"]),
        ("write to anya@example.com", ["anya@example.com"]),
        ("see https://example.com/a?b=1, please", ["https://example.com/a?b", "1"]),
        ("open /etc/hosts and settings.py", ["/etc/hosts", "settings.py"]),
        ("ask Anya Garcia or Ludwig van Beethoven", ["Anya Garcia", "Ludwig van Beethoven"]),
        ("in São Paulo with Zoë's dog", ["São Paulo", "Zoë"]),
        ("from SFO via the iPhone", ["SFO", "iPhone"]),
        ("Thanks! Flights leave. I know.", []),  # capitals without meaning
        ("Garcia called. I know Anya Garcia.", ["Garcia", "Anya Garcia"]),  # also capital mid-sentence
        ("1. first\n2. second", []),  # numbers of list items
        ("Hello hello HELLO3 hello3", ["HELLO3"]),
        ("我的订单号是12345，谢谢", ["12345"]),
        ("我想改签机票", []),
        ("", []),
    ],
)
def test_spans_finds_ids_numbers_and_names(text: str, found: list[str]) -> None:
    assert spans(text) == found


@given(st.one_of(ANY_TEXT, PROSE))
def test_spans_come_once_and_from_the_text(text: str) -> None:
    found = spans(text)
    assert len({span.casefold() for span in found}) == len(found)
    squeezed = "".join(text.split())
    assert all("".join(span.split()).replace("'s", "") in squeezed.replace("'s", "") for span in found)


@pytest.mark.parametrize(
    ("span", "summary", "kept"),
    [
        ("12", "there were 312 of them", False),
        ("12", "on 2024-05-12", False),
        ("HAT062", "flights hat062/HAT039", True),
        ("$1,200", "it cost 1200 dollars", True),
        ("and Anya Garcia", "ANYA GARCIA's seat", True),
        ("and Anya Garcia", "Anya met Mei Garcia", False),
        ("1992-11-12", "born (1992-11-12)", True),
    ],
)
def test_a_span_is_kept_as_whole_words_in_sequence(span: str, summary: str, kept: bool) -> None:
    assert retained([span], SpanIndex(summary)).share == float(kept)


def test_retained_names_both_sides_and_counts_all() -> None:
    sources = [
        " ".join(f"A{number}" for number in range(500)),
        *(f"A{number}" for number in range(500, 1000)),
    ]
    result = retained(sources, SpanIndex(" ".join(f"A{number}" for number in range(250))))
    assert result.share == 0.25
    assert result.listed["kept"] == [f"A{number}" for number in range(LIST_CAP)]
    assert result.listed["lost"] == [f"A{number}" for number in range(250, 250 + LIST_CAP)]


@given(PROSE)
def test_a_text_retains_itself_and_one_without_spans_loses_nothing(text: str) -> None:
    assert retained([text], SpanIndex(text)).share == 1.0
    assert retained(["nothing in here"], SpanIndex(text)).share == 1.0


@pytest.mark.parametrize(
    "bit",
    first_of(["a", "A", "1,", "@", " ", "\n", "Aa ", "1 May ", "A of ", "a.b@", "中1", "/", "_", "'", "$ 1 "], 3),
)
def test_repeats_make_no_more_spans_than_they_say(bit: str) -> None:
    assert len(spans((bit * 200_000)[:200_000])) <= 3
