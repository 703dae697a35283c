"""How large the project is. `python -m benchmarks.size --ceiling N` prints it in a line; more source lines fail."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, Group
from chatmemory.config.declared import Config

if TYPE_CHECKING:
    from django.contrib.auth.models import User

ROOT = Path(__file__).resolve().parent.parent
APPS = ("chatmemory", "conversations", "memory")


def run(owner: User) -> Group:
    """Count lines and files of source and tests, and settings."""
    del owner  # Nothing is stored.
    return Group("Size", counts())


def counts() -> tuple[Figure, ...]:
    """The figures, with the bars that later work is held to."""
    source, tests = _lines(*APPS), _lines("tests")
    return (
        Figure("source", sum(source), "lines", bar=33_000),
        Figure("source", len(source), "files", bar=250),
        Figure("tests", sum(tests), "lines", bar=42_000),
        Figure("tests", len(tests), "files"),
        Figure("settings", len(Config.model_fields), "", bar=65),
    )


def main() -> int:
    """Print the counts in a line. Return 1 if the source has more lines than the ceiling."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.size")
    parser.add_argument("--ceiling", type=int, metavar="N", help="fail if the source has more than N lines")
    ceiling = parser.parse_args().ceiling
    figures = counts()
    print("; ".join(f"{one.name} {one.value:,} {one.unit}".strip() for one in figures))
    if ceiling is not None and figures[0].value > ceiling:
        print(f"The source has more than {ceiling:,} lines.", file=sys.stderr)
        return 1
    return 0


def _lines(*folders: str) -> list[int]:
    """The number of lines of each Python file in `folders`."""
    files = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return [path.read_bytes().count(b"\n") for path in files if "node_modules" not in path.parts]


if __name__ == "__main__":
    sys.exit(main())
