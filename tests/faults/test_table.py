"""The table of promises shows what ran, and keeps the rows of what did not run this time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.faults.bench.table import CLOSE, HEAD, KEY, OPEN, Row, merged, rows_of


@dataclass
class Report:
    """What pytest reports of one phase of a test."""

    when: str
    facts: list[Any] = field(default_factory=list)
    failed: bool = False
    skipped: bool = False

    @property
    def user_properties(self) -> list[tuple[str, Any]]:
        return [(KEY, self.facts)]


def facts(test: str, times: int = 1, *notes: str, where: str = "") -> list[Any]:
    return ["P4", test, "cuts", where, times, list(notes)]


def test_cases_of_a_test_are_one_row() -> None:
    reports = [
        Report("setup", facts("t.py::a")),
        Report("call", facts("t.py::a", 40, "fast")),
        Report("call", facts("t.py::a", 2)),
    ]
    (row,) = rows_of(reports)
    assert (row.times, row.notes, row.broken) == ({"": 42}, ["fast"], 0)
    assert row.text() == "| P4 | `t.py::a` | cuts | 42 | held; fast |"


def test_a_failure_of_any_phase_shows_and_a_skipped_test_does_not() -> None:
    reports = [
        Report("call", facts("t.py::a")),
        Report("teardown", facts("t.py::a"), failed=True),
        Report("setup", facts("t.py::b"), skipped=True),
        Report("teardown", facts("t.py::b")),
    ]
    (row,) = rows_of(reports)
    assert "**BROKEN** in 1" in row.text()


def page(*rows: Row) -> str:
    return "\n".join(["before", OPEN, *HEAD, *(row.text() for row in rows), CLOSE, "after"])


def times(made: str) -> list[str]:
    return [line.split(" | ")[3] for line in made.splitlines() if line.startswith("| P")]


def test_a_page_keeps_the_rows_of_what_did_not_run_in_order_of_the_promises() -> None:
    old = page(Row("P10", "t.py::old", "kills", {"": 7000}), Row("P4", "t.py::a", "cuts", {"": 1}))
    made = merged(old, [Row("P4", "t.py::a", "cuts", {"": 2}), Row("P28", "t.py::z", "requests", {"": 3})])
    assert (made.splitlines()[0], made.splitlines()[-1]) == ("before", "after")
    assert times(made) == ["2", "7,000", "3"]


def test_what_a_test_did_on_each_database_stands_side_by_side() -> None:
    first = merged(page(), [Row("P1", "t.py::a", "kills", {"PostgreSQL": 1500})])
    both = merged(first, [Row("P1", "t.py::a", "kills", {"SQLite": 10})])
    assert times(both) == ["1,500 PostgreSQL, 10 SQLite"]
    assert times(merged(both, [Row("P1", "t.py::a", "kills", {"SQLite": 20})])) == [
        "1,500 PostgreSQL, 20 SQLite"
    ]


def test_a_page_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="no place"):
        merged("nothing", [])
