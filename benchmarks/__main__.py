"""`python -m benchmarks [NAME…]`: run benchmarks on SQLite and PostgreSQL and print one table of figures and bars.

Each benchmark runs in its own process, because settings are read once per process. Exits with 1 if a bar that is a
ratio or a count is missed; milliseconds and streams per second depend on the machine, so they are only marked `over`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

import psycopg

from benchmarks import databases, report
from benchmarks.figures import Group, missed

NAMES = (
    "turns",
    "first-token",
    "streams",
    "memory",
    "footprint",
    "folds",
    "slow-streams",
    "two-servers",
    "completions",
    "growth",
    "hostile",
    "gate",
    "big",
    "many",
    "recall",
    "lineage",
    "apps",
    "across",
    "agents",
    "pages",
    "path",
    "size",
    "scale",
    "released",
)
SQLITE_ALONE = {"footprint", "gate", "pages", "path", "size"}
"""Benchmarks that do not depend on the database, or whose second database would take too long to fill."""
POSTGRES_ALONE = {"scale"}
"""Those of what SQLite is not for."""
DATABASES = {"sqlite": databases.sqlite, "postgres": databases.postgres}
TITLES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}


def main() -> int:
    """Run the chosen benchmarks. Return 1 if a portable bar was missed."""
    arguments = _arguments()
    os.environ["BENCH_CHATS"] = str(arguments.chats)
    groups: list[Group] = []
    notes: list[str] = []
    for database in arguments.database or DATABASES:
        try:
            groups += _on(database, arguments.names or NAMES)
        except psycopg.OperationalError:
            notes.append("PostgreSQL was left out, because no server answers at POSTGRES_URL.")
    print(report.report(groups, notes))
    if arguments.write:
        report.write(groups)
    return int(any(figure.portable for figure in missed(groups)))


def _on(database: str, names: Sequence[str]) -> list[Group]:
    found: list[Group] = []
    for name in names:
        if name in (POSTGRES_ALONE if database == "sqlite" else SQLITE_ALONE):
            continue
        with DATABASES[database]() as url:
            print(f"{name} on {TITLES[database]} …", file=sys.stderr, flush=True)
            found.append(_run(name, url, TITLES[database]))
    return found


def _run(name: str, url: str, database: str) -> Group:
    settings = {
        "DATABASE_URL": url,
        "RATE_LIMITS": "off",
        "LOG_FORMAT": "json",
        "OPENAI_API_KEY": "",
        "OPENAI_BASE_URL": "",
    }
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.child", name],
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=None if os.environ.get("BENCH_LOGS") else subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"the benchmark {name} failed on {database}; BENCH_LOGS=1 shows what it said")
    return replace(Group.of(json.loads(done.stdout)), database=database)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Figures, with their bars beside them.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(NAMES)}; all, if none is named")
    parser.add_argument("--database", action="append", choices=tuple(DATABASES), help="on this one alone")
    parser.add_argument("--chats", type=int, default=1000, help="of `pages`: how many chats of 1,000 turns")
    parser.add_argument("--write", action="store_true", help="also write the figures into docs/benchmarks.md")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in NAMES:
            parser.error(f"there is no benchmark {name!r}; choose from {', '.join(NAMES)}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
