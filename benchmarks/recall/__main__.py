"""`make recall`: how much of what a question needs is in prompts of 1,000 to 3,000 tokens, and what recall costs.

Writes the tables of `docs/recall.md`. The recorded chats are in the folder named by `SAMPLES`; `LOCOMO` and
`LONGMEMEVAL` name a file of those public sets; without any of them, only the chats in our own languages are measured.
If `MEMORY_EMBEDDINGS_MODEL` and an upstream are set, recall is also measured with embeddings, at the upstream's price.
Each database is measured in its own process. Room that is left is filled with the newest turns in every case, as in a
prompt.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import django
import psycopg

from benchmarks import databases
from benchmarks.recall import public, shares
from benchmarks.recall.sets import Asked, Chat, own, recorded
from benchmarks.recall.ways import WITH_EMBEDDINGS, Stored

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "recall.md"
PROMPTS = (1000, 2000, 3000)
SERVICE = "Service chats (tau-bench, airline)"
PEOPLE = "People's chats (LoCoMo), the half by which numbers were chosen"
HELD_OUT = "People's chats (LoCoMo), the other half"
ASSISTANT = "An assistant's chats (LongMemEval)"
OWN = "Eleven languages, six facts each among 160 exchanges of small talk"
BUDGETS = {OWN: (100, 150, 1000)}
"""Tokens of a prompt, for the sets that do not use `PROMPTS`."""
DATABASES = {"SQLite": databases.sqlite, "PostgreSQL": databases.postgres}

SHARES = "shares"
SIZE = "size"
Score = tuple[float, float]
"""The average share of a question's evidence that is shown; the share of questions with at least some of it shown."""


def main() -> int:
    """Measure on every database that answers, and write the page."""
    results: dict[str, dict[str, Any]] = {}
    for name, database in DATABASES.items():
        try:
            with database() as url:
                results[name] = _apart(url)
        except psycopg.OperationalError:
            print(f"{name} was left out, because no server answers.", file=sys.stderr)
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_with(text, _tables(results)), encoding="utf-8")
    return 0


def _apart(url: str) -> dict[str, Any]:
    env = {**os.environ, "DATABASE_URL": url, "LOG_LEVEL": "WARNING"}
    if not env.get("MEMORY_EMBEDDINGS_MODEL"):
        env |= {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}
    command = [sys.executable, "-m", "benchmarks.recall", "measure"]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def measure() -> None:
    """Print all scores on the database of this process, as JSON."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatmemory.settings")
    django.setup()
    from django.core.management import call_command
    from django.db import connection

    call_command("migrate", verbosity=0)
    found: dict[str, Any] = {}
    for title, chats in _sets():
        found[title] = _scores(chats, _budgets(title)) | {SIZE: _size(chats)}
        if title == SERVICE and connection.vendor == "sqlite":
            found[SHARES] = shares.measure(chats)
    json.dump(found, sys.stdout)


def _sets() -> Iterator[tuple[str, list[Chat]]]:
    if people := _file("LOCOMO"):
        chats = public.locomo(people)
        yield PEOPLE, chats[0::2]
        yield HELD_OUT, chats[1::2]
    if assistant := _file("LONGMEMEVAL"):
        yield ASSISTANT, public.longmemeval(assistant)
    if folder := os.environ.get("SAMPLES"):
        yield SERVICE, recorded(Path(folder) / "tau_airline_xl.json")
    yield OWN, own()


def _file(variable: str) -> Path | None:
    name = os.environ.get(variable)
    return Path(name) if name else None


def _budgets(title: str) -> tuple[int, ...]:
    return BUDGETS.get(title, PROMPTS)


def _size(chats: Sequence[Chat]) -> str:
    from chatmemory.text.tokens import count_tokens

    tokens = sum(count_tokens(message.text) for chat in chats for message in chat.messages) / len(chats)
    questions = sum(len(asked) for chat in chats for asked in chat.asked.values())
    return f"{len(chats)} of about {tokens:,.0f} tokens, {questions:,} questions"


def _scores(chats: Sequence[Chat], budgets: Sequence[int]) -> dict[str, dict[str, list[Score]]]:
    """Return a score for each budget, by form of question and by way of choosing."""
    from memory.recall import embeddings

    forms = {form for chat in chats for form in chat.asked}
    ways = ("last turns", "plain BM25", "recall", *((WITH_EMBEDDINGS,) if embeddings.embeds() else ()))
    sums = {form: {way: [[0.0, 0, 0] for _ in budgets] for way in ways} for form in sorted(forms)}
    for chat in chats:
        stored = Stored(chat)
        for form, questions in chat.asked.items():
            for asked in questions:
                for at, budget in enumerate(budgets):
                    for way, shown in stored.shown(asked.question, budget).items():
                        _add(sums[form][way][at], asked, shown)
    return {
        form: {way: [(found / asked, some / asked) for found, some, asked in row] for way, row in rows.items()}
        for form, rows in sums.items()
    }


def _add(sums: list[float], asked: Asked, shown: Mapping[int, str]) -> None:
    there = [at for at, forms in asked.evidence.items() if any(form in shown.get(at + 1, "").lower() for form in forms)]
    for at, number in enumerate((len(there) / len(asked.evidence), bool(there), 1)):
        sums[at] += number


def _tables(results: Mapping[str, Mapping[str, Any]]) -> str:
    titles = [title for title in next(iter(results.values())) if title != SHARES]
    tables = [_table(title, results) for title in titles]
    shares = next((found[SHARES] for found in results.values() if SHARES in found), None)
    return "\n\n".join([*tables, *([_share_table(shares)] if shares else [])])


def _share_table(shares: Mapping[str, float]) -> str:
    head = "**Whole prompts of 3,000 tokens after folding, service chats: questions whose value is in the prompt**"
    names, rule = " | ".join(shares), " ---: |" * len(shares)
    row = " | ".join(f"{100 * found:.0f} %" for found in shares.values())
    return f"{head}\n\n| `MEMORY_RECALL_SHARE` | {names} |\n| --- |{rule}\n| found | {row} |"


def _table(title: str, results: Mapping[str, Mapping[str, Any]]) -> str:
    budgets = _budgets(title)
    sets = next(iter(results.values()))
    columns = " | ".join(f"{size:,} tokens" for size in budgets)
    head = f"**{title}**: {sets[title][SIZE]}\n\n| asked by | chosen by | {columns} |"
    lines = [head, "| --- | --- |" + " ---: |" * len(budgets)]
    forms = {form: ways for form, ways in sets[title].items() if form != SIZE}
    for form, ways in forms.items():
        for way in ways:
            if way.startswith("recall"):
                lines += [_row(form, f"{way}, {name}", found[title][form][way]) for name, found in results.items()]
            else:
                lines.append(_row(form, way, ways[way]))
    return "\n".join(lines)


def _row(form: str, way: str, scores: Sequence[Score]) -> str:
    cells = (f"{100 * evidence:.0f} % ({100 * facts:.0f} %)" for evidence, facts in scores)
    return f"| {form} | {way} | " + " | ".join(cells) + " |"


def _with(text: str, written: str) -> str:
    begin, end = "<!-- tables -->", "<!-- end of tables -->"
    before, after = text.index(begin) + len(begin), text.index(end)
    return f"{text[:before]}\n\n{written}\n\n{text[after:]}"


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        measure()
    else:
        sys.exit(main())
