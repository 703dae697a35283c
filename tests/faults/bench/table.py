"""A pytest plugin: which promise a test covers, which faults it injects and how often, as a table at the end.

A test is marked `@pytest.mark.promise("P4", injected="the upstream cut off at every byte")`. It counts by the fixture
`tally` (`tally(16_000)`), or else once per case. `effort(short, full)` chooses how often: the first by default, the
second with `--faults full`. `--table FILE` writes the rows of this run into that page, between its two comments. Rows
of tests that did not run, and their counts on the other database, are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

OPEN, CLOSE = "<!-- the table of make faults -->", "<!-- its end -->"
HEAD = ("| promise | test | injected | times | result |", "|---|---|---|---|---|")
KEY = "promise"


@dataclass(slots=True)
class Row:
    """One test with all its cases. `times` is by database, under "" for a test that needs none."""

    promise: str
    test: str
    injected: str
    times: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    broken: int = 0

    def text(self) -> str:
        result = f"**BROKEN** in {self.broken}" if self.broken else "held"
        said = "; ".join([result, *dict.fromkeys(self.notes)])
        times = ", ".join(f"{n:,} {where}".strip() for where, n in sorted(self.times.items()))
        return f"| {self.promise} | `{self.test}` | {self.injected} | {times} | {said} |"


class Tally:
    """Counts what a test injected, and keeps figures for the table."""

    def __init__(self, database: str) -> None:
        self.database = database
        """`SQLite`, `PostgreSQL` or "". By default pytest's own; a test with its own database sets it."""
        self.times = 0
        self.notes: list[str] = []

    def __call__(self, times: int = 1) -> None:
        """Count `times` more."""
        self.times += times

    def note(self, text: str) -> None:
        """Add a measured figure for readers: `95th percentile 41 ms`."""
        self.notes.append(text)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("promises")
    group.addoption(
        "--faults", choices=("short", "full"), default="short", help="how often faults are injected"
    )
    group.addoption("--table", type=Path, help="the page whose table this run's rows go into")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "promise(*ids, injected): holds these promises, by injecting that")


@pytest.fixture
def effort(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """Choose the first number, or the second with `--faults full`."""
    full = request.config.getoption("faults") == "full"
    return lambda short, many: many if full else short


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    """The count for this test's row."""
    made = Tally(_database_of(request.node))
    request.node.stash[_TALLY] = made
    return made


_TALLY = pytest.StashKey[Tally]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    if (marker := item.get_closest_marker("promise")) is not None:
        # xdist's processes send reports with their properties, but with no other data of ours.
        made = item.stash.get(_TALLY, None)
        where = made.database if made else _database_of(item)
        test = re.sub(r"\[.*", "", item.nodeid, flags=re.DOTALL)
        facts = [", ".join(marker.args), test, marker.kwargs.get("injected", "–")]
        counts = [where, made.times if made else 1, made.notes if made else []]
        report.user_properties = [(KEY, [*facts, *counts])]
    return report


def rows_of(reports: Iterable[Any]) -> list[Row]:
    """Return one row per test, from the reports of setups, calls and teardowns."""
    rows: dict[str, Row] = {}
    for report in reports:
        for key, value in getattr(report, "user_properties", ()):
            if key == KEY and not report.skipped:
                promise, test, injected, where, times, notes = value
                row = rows.setdefault(test, Row(promise, test, injected))
                row.broken += report.failed
                if report.when == "call":
                    row.times[where] = row.times.get(where, 0) + times
                    row.notes += notes
    # A test that skips itself has a teardown, too.
    return sorted((row for row in rows.values() if row.times or row.broken), key=_order)


def merged(page: str, rows: Iterable[Row]) -> str:
    """Return `page` with these rows in its table, other rows kept. Raises `ValueError` if it has no table."""
    before, opened, rest = page.partition(OPEN)
    old, closed, after = rest.partition(CLOSE)
    if not (opened and closed):
        raise ValueError("this page has no place for the table")
    lines = {_test_in(line): line for line in old.strip().splitlines()[len(HEAD) :]}
    for row in rows:
        row.times = {**_times_in(lines.get(row.test, "")), **row.times}
        lines[row.test] = row.text()
    table = "\n".join([*HEAD, *sorted(lines.values(), key=_line_order)])
    return f"{before}{OPEN}\n{table}\n{CLOSE}{after}"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    reports = [report for found in terminalreporter.stats.values() for report in found]
    rows = rows_of(reports)
    page: Path | None = config.getoption("table")
    if page is None or not rows:
        return
    page.write_text(merged(page.read_text(), rows))
    terminalreporter.write_line("")
    for line in (*HEAD, *(row.text() for row in rows)):
        terminalreporter.write_line(line)


def _order(row: Row) -> tuple[int, str]:
    return int(re.sub(r"\D.*", "", row.promise.removeprefix("P")) or 0), row.test


def _test_in(line: str) -> str:
    return line.split("`")[1]


def _times_in(line: str) -> dict[str, int]:
    if not line:
        return {}
    found = re.findall(r"([\d,]+?)(?: (SQLite|PostgreSQL))?(?:, |$)", line.split(" | ")[3])
    return {where: int(number.replace(",", "")) for number, where in found}


def _database_of(item: Any) -> str:
    if not {"db", "transactional_db"} & set(item.fixturenames) and not item.get_closest_marker("django_db"):
        return ""
    return "SQLite" if settings.IS_SQLITE else "PostgreSQL"


def _line_order(line: str) -> tuple[int, str]:
    found = re.match(r"\| P(\d+)", line)
    return (int(found[1]) if found else 0), _test_in(line)
