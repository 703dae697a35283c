"""The one-sentence verdict of a comparison."""

from __future__ import annotations

from typing import Any

import pytest

from memory.admin.comparison.verdict import amount, at_a_glance, verdict
from memory.lab.comparison.break_even import BreakEven, Course, Growth, Unit

ALWAYS, UNKNOWN = BreakEven("always", 1), BreakEven("unknown")


def growth(
    whole: float,
    *costs: float,
    warm: BreakEven = UNKNOWN,
    cold: BreakEven = UNKNOWN,
    unit: Unit = "USD",
    turns: int = 50,
) -> Growth:
    """Make the growth of policies with these total costs, named in this order."""

    def way(name: str, cost: float, *meets: Any) -> Course:
        return Course(name, tuple([cost] * turns), tuple([cost * 2] * turns), *meets)

    names = ("chunked", "card", "interval")
    ways = tuple(way(name, cost, warm, cold) for name, cost in zip(names, costs, strict=False))
    return Growth(unit, way("everything", whole), ways)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            growth(0.022, 0.029, 0.04, warm=BreakEven("expected", 120), cold=BreakEven("since", 35)),
            "At 50 turns, sending everything is cheapest: $0.0220 against $0.0290 for chunked. From about turn 120 on, "
            "chunked is cheaper; with a cold cache, it is from turn 35 on. This assumes that the chat "
            "continues as before.",
        ),
        (
            growth(0.2, 0.1, 0.05, warm=BreakEven("since", 30), cold=ALWAYS),
            "At 50 turns, card is cheapest: $0.0500 against $0.200 for sending everything. From turn 30 on, card is "
            "cheaper; with a cold cache, it is from the first turn on.",
        ),
        (
            growth(0.2, 0.1, warm=ALWAYS, cold=ALWAYS),
            "At 50 turns, chunked is cheaper: $0.100 against $0.200 for sending everything. From the first turn on, "
            "chunked is cheaper.",
        ),
        (
            growth(0.022, 0.029, warm=BreakEven("later", 500), cold=BreakEven("later", 500)),
            "At 50 turns, sending everything is cheaper: $0.0220 against $0.0290 for chunked. Up to turn 500, chunked "
            "is not cheaper. This assumes that the chat continues as before.",
        ),
        (
            growth(0.022, 0.029, warm=BreakEven("later", 500), cold=BreakEven("expected", 90)),
            "At 50 turns, sending everything is cheaper: $0.0220 against $0.0290 for chunked. Up to turn 500, chunked "
            "is not cheaper; with a cold cache, it is from about turn 90 on. This assumes that the chat "
            "continues as before.",
        ),
        (
            growth(0.022, 0.029),
            "At 50 turns, sending everything is cheaper: $0.0220 against $0.0290 for chunked. It is too early "
            "to tell from which turn on chunked is cheaper.",
        ),
        (
            growth(0.022, 0.029, cold=BreakEven("since", 5), turns=6),
            "At 6 turns, sending everything is cheaper: $0.0220 against $0.0290 for chunked. It is too early "
            "to tell from which turn on chunked is cheaper; with a cold cache, it is from turn 5 on.",
        ),
        (
            growth(0.022, 0.02205, turns=1),
            "At 1 turn, chunked costs the same as sending everything: $0.0221. It is too early to tell from "
            "which turn on chunked is cheaper.",
        ),
        (
            growth(20_000, 12_345, warm=BreakEven("since", 8), cold=BreakEven("since", 8), unit="tokens"),
            "At 50 turns, chunked takes fewer tokens: 12,345 tokens against 20,000 tokens for sending everything. From "
            "turn 8 on, chunked takes fewer tokens. Prices are not known, so tokens are compared, summary updates "
            "included.",
        ),
        (
            growth(20_000, 22_345, 23_000, warm=BreakEven("later", 500), unit="tokens"),
            "At 50 turns, sending everything takes the fewest tokens: 20,000 tokens against 22,345 tokens for chunked. "
            "Up to turn 500, chunked does not take fewer tokens. This assumes that the chat continues as before. "
            "Prices are not known, so tokens are compared, summary updates included.",
        ),
        (
            growth(0, 0),
            "At 50 turns, chunked costs the same as sending everything: $0. It is too early to tell from which "
            "turn on chunked is cheaper.",
        ),
        (growth(0.2), ""),
        (growth(0.2, 0.1, turns=0), ""),
    ],
)
def test_the_verdict(found: Growth, sentence: str) -> None:
    assert verdict(found) == sentence


def test_at_a_glance_the_cheapest_comes_first() -> None:
    rows = at_a_glance(growth(0.2, 0.3, 0.1))
    assert [(row.name, row.times_warm) for row in rows] == [
        ("card", "0.50 ×"),
        ("everything", "1.00 ×"),
        ("chunked", "1.50 ×"),
    ]
    assert rows[0].cold == "$0.200"
    assert {row.times_warm for row in at_a_glance(growth(0, 0))} == {"–"}
    assert at_a_glance(growth(1, 1, turns=0)) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "$0"), (0.00001234, "$0.0000123"), (0.0224, "$0.0224"), (0.5, "$0.500"), (1234.5, "$1,234.50")],
)
def test_amounts_have_three_digits(value: float, text: str) -> None:
    assert amount(value, "USD") == text
