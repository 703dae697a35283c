"""Where and when figures were measured, and the part of `docs/benchmarks.md` that the command itself writes."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks.figures import Group, as_table, side_by_side

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
BEGIN = "<!-- figures -->"
END = "<!-- end of figures -->"
HEADER = ("| what | SQLite | PostgreSQL | bar |", "| --- | --: | --: | --: |")
_TITLE = re.compile(r"\| \*\*(.+?)\*\*")
PACKAGES = ("django", "djangorestframework", "uvicorn", "openai", "aiohttp", "tiktoken", "psycopg")


def report(groups: Sequence[Group], extra: Sequence[str] = ()) -> str:
    """Return the figures, preceded by a description of the machine and the software."""
    return "\n".join([_measured_on(), *extra, "", as_table(groups)])


def write(groups: Sequence[Group]) -> None:
    """Put the rows of each benchmark into the document's table, dated, in place of its earlier rows.

    Benchmarks that were not measured keep theirs. Raise `ValueError` if the table's markers are missing.
    """
    document = DOCUMENT.read_text(encoding="utf-8")
    before, after = document.index(BEGIN) + len(BEGIN), document.index(END)
    tables: dict[str, list[str]] = {}
    for line in document[before:after].splitlines():
        if found := _TITLE.match(line):
            rows = tables.setdefault(found[1], [line])
        elif tables and line.startswith("|"):
            rows.append(line)
    for title in dict.fromkeys(group.title for group in groups):
        head = f"| **{title}**, {datetime.now(UTC):%Y-%m-%d} | | | |"
        tables[title] = [head, *side_by_side([group for group in groups if group.title == title])]
    lines = [_measured_on(), "", *HEADER, *(line for table in tables.values() for line in table)]
    text = "\n".join(lines)
    DOCUMENT.write_text(f"{document[:before]}\n\n{text}\n\n{document[after:]}", encoding="utf-8")


def _measured_on() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {platform.system()} on {platform.machine()}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f} at the end; "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {packages}."
    )
