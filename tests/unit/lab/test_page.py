"""`docs/lab.md` describes the current tables, and the same policies everywhere. Its figures come from `make lab`.

A new policy need not be there.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.lab import DOCS
from memory.lab.tables import legend_markdown, sheets_of
from memory.policies import POLICIES
from tests.unit.lab.makers import outcome_of, run_of, turn

PAGE = (DOCS / "lab.md").read_text()
ROW = re.compile(rf"^\| ({'|'.join(POLICIES)}) \| ", re.MULTILINE)
PARTS = re.findall(r"<!-- (\w+) -->\n(.*?)<!-- end of \1 -->", PAGE, re.DOTALL)


def test_it_has_all_its_parts() -> None:
    assert [name for name, _ in PARTS] == ["columns", "long", "recall", "short", "orders", "own"]


@pytest.mark.parametrize("sheet", sheets_of(outcome_of(run_of(turn()))), ids=lambda sheet: sheet.title)
def test_every_column_is_explained_as_it_is_now(sheet: object) -> None:
    assert legend_markdown(sheet) in PAGE  # type: ignore[arg-type]  # a Sheet, which ids= cannot be told


@pytest.mark.parametrize(("name", "text"), PARTS[1:], ids=[name for name, _ in PARTS[1:]])
def test_every_collection_shows_the_same_policies_and_a_plot(name: str, text: str) -> None:
    assert set(ROW.findall(text)) == set(ROW.findall(PAGE)) >= {"chunked"}
    plots = re.findall(r"!\[[^]]+\]\((\S+)\)", text)
    assert [(Path(DOCS) / plot).exists() for plot in plots] == [True] * (name != "recall")


def test_recall_is_shown_in_every_mode() -> None:
    text = dict(PARTS)["recall"]
    for policy in set(ROW.findall(PAGE)):
        assert re.findall(rf"\| {policy} \| (\w+) \|", text) == ["off", "auto", "always"]
