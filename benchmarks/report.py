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

from benchmarks.figures import Group, as_table

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
BEGIN = "<!-- figures -->"
END = "<!-- end of figures -->"
_SECTION = re.compile(r"^### ", re.MULTILINE)
PACKAGES = ("django", "djangorestframework", "uvicorn", "openai", "aiohttp", "tiktoken", "psycopg")


def report(groups: Sequence[Group], extra: Sequence[str] = ()) -> str:
    """Return the figures, preceded by a description of the machine and the software."""
    return "\n".join([_measured_on(), *extra, "", as_table(groups)])


def write(groups: Sequence[Group]) -> None:
    """Put each group between the document's markers, dated, in place of its earlier figures.

    Groups that were not measured stay as they are. Raise `ValueError` if the markers are missing.
    """
    document = DOCUMENT.read_text(encoding="utf-8")
    before, after = document.index(BEGIN) + len(BEGIN), document.index(END)
    sections = {
        section.split("\n", 1)[0]: section for section in _SECTION.split(document[before:after].strip())
    }
    for group in groups:
        sections[group.title] = f"{group.title}\n\n{_measured_on()}\n\n{as_table([group], titled=False)}"
    written = "\n\n".join(f"### {section.strip()}" for section in sections.values() if section)
    DOCUMENT.write_text(f"{document[:before]}\n\n{written}\n\n{document[after:]}", encoding="utf-8")


def _measured_on() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {platform.system()} on {platform.machine()}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f} at the end; "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {packages}."
    )
