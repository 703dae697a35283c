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


def sentence(*, cost: bool = True, folds: list[Any] | None = None, **usage: Any) -> str:
    return " ".join(sentences([USAGE | usage], [FOLD] if folds is None else folds, with_cost=cost))


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


def test_saved_tokens_are_net_of_summarizer() -> None:
    assert "Net saving 20.0k tokens (30.0k saved, 10.0k spent on summaries)." in sentence()
    costly = sentence(saved_tokens=1_000)
    assert "Net cost 9,000 tokens (1,000 saved, 10.0k spent on summaries). Short chats take more to summarize" in costly
    assert "Net" not in sentence(compared=0)


def test_charts_show_cost_with_permission_and_unknown_prices() -> None:
    assert "Cost: $0.0300, summary updates included." in sentence()
    assert "without 2 replies of unknown price" in sentence(priced=7)
    assert "$" not in sentence(cost=False)


def test_charts_of_updates_show_duration_and_kept_spans() -> None:
    assert "An update took 2.0 s on average, and kept 50% of names" in sentence()
    assert "An update" not in sentence(folds=[FOLD | {"kind": "rebuild"}])


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
