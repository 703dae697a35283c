"""Sums of a day's figures, and how numbers are formatted for people."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.usage.figures import CountedReply, ago, short, sums_of, usd

REPLY = CountedReply(
    day=date(2026, 3, 1),
    variant="arco",
    failed=False,
    input_tokens=1000,
    cached_tokens=0,
    output_tokens=50,
    cost_usd=Decimal("0.00175"),
    memory_tokens=800,
    history_tokens=100_800,
)


@pytest.mark.parametrize(
    ("change", "saved"),
    [
        ({}, 100_000),
        ({"history_tokens": 500}, 0),  # a short chat: memory only adds headings
        ({"failed": True}, None),
        ({"history_tokens": None}, None),
    ],
)
def test_saved_is_what_was_not_sent(change: dict[str, Any], saved: int | None) -> None:
    (sums,) = sums_of([replace(REPLY, **change)]).values()
    assert sums.get("saved_tokens") == saved


def test_what_is_not_known_is_in_no_sum() -> None:
    unknown = replace(REPLY, input_tokens=None, cost_usd=None, history_tokens=None)
    (sums,) = sums_of([REPLY, unknown]).values()
    assert (sums["replies"], sums["billed"], sums["priced"], sums["compared"]) == (2, 1, 1, 1)
    assert (sums["input_tokens"], sums["memory_tokens"]) == (1000, 800)


replies = st.builds(
    CountedReply,
    day=st.sampled_from([date(2026, 3, 1), date(2026, 3, 2)]),
    variant=st.sampled_from(["arco", "vela"]),
    failed=st.booleans(),
    input_tokens=st.none() | st.integers(1, 10**6),
    cached_tokens=st.just(0),
    output_tokens=st.integers(0, 10**5),
    cost_usd=st.none() | st.decimals(0, 10, places=9),
    memory_tokens=st.integers(0, 5000),
    history_tokens=st.none() | st.integers(0, 10**9),
)


@given(st.lists(replies), st.integers(0, 20))
def test_batches_add_up_to_the_whole(many: list[CountedReply], cut: int) -> None:
    whole = sums_of(many)
    first, second = sums_of(many[:cut]), sums_of(many[cut:])
    assert list(whole) == sorted(whole)
    for key, sums in whole.items():
        for name, value in sums.items():
            assert first.get(key, {}).get(name, 0) + second.get(key, {}).get(name, 0) == value


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


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(-3, "0 s"), (4.4, "4 s"), (119, "119 s"), (180, "3 min"), (7200, "2 h"), (200_000, "2 days")],
)
def test_how_long_ago(seconds: float, told: str) -> None:
    assert ago(seconds) == told
