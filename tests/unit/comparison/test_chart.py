"""The plot of costs over turns: everything drawn lies within it, and its table has the same numbers."""

from __future__ import annotations

from itertools import accumulate

import pytest

from memory.admin.comparison.chart import (
    BOTTOM,
    LEFT,
    MOST_POINTS,
    MOST_ROWS,
    RIGHT,
    TOP,
    Curve,
    nice_steps,
    plot_of,
    sampled,
)
from memory.lab.comparison.break_even import BreakEven, Course, Growth, Unit


def growth(turns: int = 500, unit: Unit = "USD") -> Growth:
    rising = tuple(accumulate(number / 1e5 for number in range(turns)))
    flat = tuple(accumulate(0.002 for _ in range(turns)))
    twice = tuple(2 * one for one in rising)
    since, later = BreakEven("since", min(400, turns)), BreakEven("later", 5000)
    return Growth(unit, Course("everything", rising, twice), (Course("chunked", flat, flat, since, later),))


def points(line: Curve) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (one.split(",") for one in line.points.split())]


def test_lines_are_within_the_panel_and_both_have_one_scale() -> None:
    found = plot_of(growth())
    assert found is not None
    warm, cold = found.panels
    assert warm.up == cold.up
    for panel in found.panels:
        for line in panel.lines:
            drawn = points(line)
            assert len(drawn) == MOST_POINTS
            assert (drawn[0][0], drawn[-1][0]) == (LEFT, RIGHT)
            assert all(TOP <= y <= BOTTOM for _, y in drawn)
            assert [y for _, y in drawn] == sorted((y for _, y in drawn), reverse=True)


def test_what_was_met_is_marked_and_what_is_foreseen_is_not() -> None:
    found = plot_of(growth())
    assert found is not None
    assert [tick.text for tick in found.panels[0].meets] == ["chunked is cheaper from turn 400 on"]
    assert LEFT < found.panels[0].meets[0].at < RIGHT
    assert found.panels[1].meets == []


def test_the_table_has_the_first_and_the_last_turn() -> None:
    found = plot_of(growth())
    assert found is not None
    assert found.columns == ["chunked, warm", "chunked, cold", "everything, warm", "everything, cold"]
    assert len(found.rows) == MOST_ROWS
    assert (found.rows[0][0], found.rows[-1][0]) == (1, 500)
    assert found.rows[-1][1][:2] == ["$1.00", "$1.00"]
    assert found.panels[0].told == "After 500 turns: chunked $1.00, everything $1.25."


def test_in_tokens_there_is_one_panel() -> None:
    found = plot_of(growth(unit="tokens"))
    assert found is not None
    assert (len(found.panels), found.columns) == (1, ["chunked", "everything"])


def test_one_turn_is_no_line() -> None:
    assert plot_of(growth(1)) is None
    assert plot_of(growth(2)) is not None
    nothing = Course("everything", (0.0, 0.0), (0.0, 0.0))
    assert plot_of(Growth("USD", nothing, (nothing,))) is not None


@pytest.mark.parametrize("most", [1e-9, 0.0231, 0.9, 1, 7, 99, 12_345, 3e8])
def test_steps_are_round_and_reach_the_largest(most: float) -> None:
    steps = nice_steps(most)
    assert steps[0] == 0
    assert most <= steps[-1] * (1 + 1e-6)
    assert steps[-2] < most
    assert 2 <= len(steps) <= 6


def test_sampling_keeps_both_ends() -> None:
    assert sampled(3, 5) == [0, 1, 2]
    assert sampled(100, 5) == [0, 25, 50, 74, 99]
