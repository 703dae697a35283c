"""The charts of the admin's start page, the sentences about a period, and numbers for people."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from memory.admin.charts import FEWEST_CARDS, HEIGHT, card_trouble, charts_of, sentences
from memory.usage.figures import short, usd

DAYS = [date(2026, 3, 1), date(2026, 3, 2)]
USAGE = {
    **dict.fromkeys(("failed", "cached_tokens", "cards", "cards_kept"), 0),
    **dict.fromkeys(("replies", "billed", "priced", "compared"), 9),
    "day": DAYS[1],
    "input_tokens": 20_000,
    "output_tokens": 1_000,
    "cost_usd": 0.02,
    "history_tokens": 40_000,
    "memory_tokens": 10_000,
    "saved_tokens": 30_000,
}
FOLD = {
    "day": DAYS[1],
    "kind": "fold",
    "folds": 4,
    "degraded": 1,
    "failures": 2,
    "share_sum": 2.0,
    "duration_ms": 8_000,
    "input_tokens": 9_000,
    "output_tokens": 1_000,
    "cost_usd": 0.01,
}


@pytest.mark.parametrize(
    ("usage", "folds", "cost", "said", "unsaid"),
    [
        ({}, [FOLD], True, "Net saving 20.0k tokens (30.0k saved, 10.0k spent on summaries).", "Net cost"),
        ({"saved_tokens": 1_000}, [FOLD], True, "Net cost 9,000 tokens (1,000 saved, 10.0k spent", "Net saving"),
        ({"saved_tokens": 1_000}, [FOLD], True, "Short chats take more to summarize", "Net saving"),
        ({"compared": 0}, [FOLD], True, "", "Net"),
        ({}, [FOLD], True, "Cost: $0.0300, summary updates included.", "unknown price"),
        ({"priced": 7}, [FOLD], True, "without 2 replies of unknown price", "Cost: $0.0300, summary"),
        ({}, [FOLD], False, "", "$"),
        ({}, [FOLD], True, "An update took 2.0 s on average, and kept 50% of names", "An update took 0"),
        ({}, [FOLD | {"kind": "rebuild"}], True, "", "An update"),
    ],
)
def test_sentences_about_a_period(usage: dict[str, Any], folds: list[Any], cost: bool, said: str, unsaid: str) -> None:
    told = " ".join(sentences([USAGE | usage], folds, with_cost=cost))
    assert said in told
    assert unsaid not in told


def test_days_without_a_row_are_zero_and_the_highest_bar_fills_the_chart() -> None:
    saved, folds = charts_of(DAYS, [USAGE, USAGE], [FOLD])
    assert saved.total == [("sent as memory", "20.0k"), ("in whole chats", "80.0k")]
    assert [(bar.y, bar.height) for bar in saved.bars] == [(HEIGHT * 0.75, HEIGHT / 4), (0, HEIGHT)]
    assert saved.bars[1].text == "2 Mar 2026: 80.0k in whole chats"
    assert saved.rows == [("2 Mar 2026", ["20.0k", "80.0k"]), ("1 Mar 2026", ["0", "0"])]
    assert folds.total == [("published", "4"), ("by the built-in summarizer", "1"), ("failed attempts", "2")]


def test_bars_of_a_day_do_not_overlap_and_an_empty_chart_has_none() -> None:
    (first, second) = charts_of(DAYS, [USAGE], [])[0].bars
    assert [first.x, second.x] == [3, 4]
    assert charts_of(DAYS, [], [])[1].bars == []


def test_bad_notes_are_a_trouble_from_a_number_on() -> None:
    def trouble(cards: int, kept: int) -> str:
        return card_trouble([USAGE | {"cards": cards, "cards_kept": kept}])

    assert trouble(100, 90).startswith("10.0% of 100, more than 5%")
    assert trouble(100, 95) == trouble(FEWEST_CARDS - 1, 0) == trouble(0, 0) == ""


@pytest.mark.parametrize(
    ("number", "told"),
    [
        *((0, "0"), (7, "7"), (1234, "1,234"), (9999, "9,999"), (10_000, "10.0k"), (12_345, "12.3k")),
        *((123_456, "123k"), (999_499, "999k"), (999_600, "1.00M"), (4_560_000, "4.56M")),
        *((2.5e9, "2.50B"), (1.2e13, "12,000B")),
    ],
)
def test_numbers_for_people(number: float, told: str) -> None:
    assert short(number) == told


@pytest.mark.parametrize(
    ("amount", "told"),
    [
        *((0, "$0.00"), (0.0123, "$0.0123"), (0.00001234, "$0.000012")),
        *((Decimal("12.345"), "$12.35"), (1234.5, "$1,234.50")),
    ],
)
def test_money_for_people(amount: float, told: str) -> None:
    assert usd(amount) == told
