"""docs/reliability.md is complete: each promise has a mechanism, a test that covers it, and a row of results."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.faults.bench.table import CLOSE, OPEN

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reliability.md"
PROMISES = [f"P{number}" for number in range(1, 33)]


def marked(path: Path) -> Iterator[tuple[str, str]]:
    """Yield promise and test name for each marked test of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for promise in promises_of(node):
                yield promise, f"{path.relative_to(ROOT).as_posix()}::{node.name}"


def promises_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for mark in node.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.promise":
            yield from (str(ast.literal_eval(argument)) for argument in mark.args)


@cache
def held() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for promise, test in marked(path):
            found.setdefault(promise, set()).add(test)
    return found


def rows(table: str) -> list[list[str]]:
    """Return the cells of a Markdown table's rows that begin with a promise."""
    lines = [line for line in table.splitlines() if re.match(r"\| P\d", line)]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def page() -> tuple[str, str]:
    """Return the table of mechanisms, and that of the last run of `make faults`."""
    before, _, rest = PAGE.read_text().partition(OPEN)
    return before, rest.partition(CLOSE)[0]


def test_nobody_holds_a_promise_that_there_is_not() -> None:
    assert set(held()) <= set(PROMISES)


@pytest.mark.parametrize("promise", PROMISES)
def test_each_promise_has_what_keeps_it_a_test_and_a_result(promise: str) -> None:
    prose, results = page()
    assert [row[0] for row in rows(prose)].count(promise) == 1
    assert held().get(promise), "no test says that it holds this"
    assert any(promise in row[0].split(", ") for row in rows(results)), "make faults has no row for it"


def test_each_row_is_of_a_test_that_there_is_and_that_held() -> None:
    known = {test for tests in held().values() for test in tests}
    for promises, test, injected, times, result, *_ in rows(page()[1]):
        assert test.strip("`") in known, f"{test} is gone, its row is not"
        assert injected not in ("", "–"), f"{test} does not say what it injects"
        assert times, f"{test} ({promises}) injected nothing"
        assert result.startswith("held"), f"{test}: {result}"
