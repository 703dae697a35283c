"""Statistics over many prompts, with numbers small enough to count by hand."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.lab.measures import Run, SummarizerCall, percentile, summary_of
from memory.lab.retention import RetentionTally
from tests.unit.lab.makers import run_of, turn


def test_a_summary() -> None:
    first = run_of(
        turn(100, prompt=200, prefix=0),
        turn(300, prompt=400, prefix=150, before=1, folds=2),
        turn(3001, prompt=400, prefix=350, before=2, unrepresented=1, waited=True),
        calls=(SummarizerCall(1, 1000, 50), SummarizerCall(1, 600, 40)),
        spans={1: RetentionTally(4, 3, 2)},
    )
    second = run_of(turn(0, prompt=0), calls=(SummarizerCall(0, 10, 1),), spans={1: RetentionTally(1, 0, 0)})
    found = summary_of("chunked", [first, second])
    assert (found.turns, found.memory_mean, found.memory_p95, found.memory_max) == (4, 850.25, 3001, 3001)
    assert (found.over_budget, found.cacheable) == (0.25, 0.5)
    assert (found.calls, found.input_tokens, found.output_tokens) == (3, 1610, 91)
    assert (found.folds, found.waited) == (1, 1)
    assert (found.coverage, found.coverage_min) == (0.875, 0.5)
    assert found.spans[1] == RetentionTally(5, 3, 2)


def test_of_nothing() -> None:
    found = summary_of("chunked", [])
    assert (found.turns, found.memory_mean, found.memory_max, found.cacheable, found.coverage) == (
        0,
        0,
        0,
        0,
        1,
    )


@pytest.mark.parametrize(
    ("values", "expected"), [([], 0), ([7], 7), (list(range(1, 21)), 19), (list(range(1, 101)), 95)]
)
def test_percentile(values: list[int], expected: int) -> None:
    assert percentile(values, 0.95) == expected


@given(st.lists(st.integers(0, 99), min_size=1))
def test_at_least_so_many_are_not_above_a_percentile(values: list[int]) -> None:
    found = percentile(sorted(values), 0.95)
    assert found in values
    assert sum(value <= found for value in values) >= 0.95 * len(values)


def test_a_run_travels_as_json() -> None:
    run = run_of(turn(5, waited=True), turn(7), calls=(SummarizerCall(0, 1, 2),))
    assert Run.from_json(json.loads(json.dumps(run.to_json()))) == run
