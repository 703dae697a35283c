"""`make recall`: how much of what a question needs is in prompts of 1,000 to 3,000 tokens, and what recall costs.

Writes the tables of `docs/recall.md`. The recorded chats lie in the folder that `SAMPLES` names; without it, those of
our own languages are asked alone. Where `MEMORY_EMBEDDINGS_MODEL` and an upstream are set, recall is measured with
embeddings, too, at the upstream's price. Each database works in a process of its own. Room that recall leaves is filled
with the newest turns, for all alike, as a prompt is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from math import inf, log
from pathlib import Path
from typing import Any

import django
import psycopg

from benchmarks import databases, recall_shares
from benchmarks.recall_sets import Asked, Chat, own, recorded

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "recall.md"
SETS = (
    (
        "tau_airline_xl.json",
        "Service chats (tau-bench, airline; 4 of about 25,000 tokens)",
        (1000, 2000, 3000),
    ),
    ("tm4_long.json", "Small orders (TM-4; 20 of about 1,100 tokens)", (500, 1000, 2000, 3000)),
)
OWN = ("Eleven languages, six facts each among 160 exchanges of small talk", (60, 150, 1000))
DATABASES = {"SQLite": databases.sqlite, "PostgreSQL": databases.postgres}

SHARES = "shares"
WITH_EMBEDDINGS = "recall with embeddings"

Score = tuple[float, float]
"""Share of the messages that hold the value, and of the questions for which at least one of them is there."""


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
    """All scores on the database of this process, as JSON."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatmemory.settings")
    django.setup()
    from django.core.management import call_command
    from django.db import connection

    call_command("migrate", verbosity=0)
    found: dict[str, Any] = {title: _scores(chats, budgets) for title, chats, budgets in _sets()}
    service = Path(os.environ.get("SAMPLES", "")) / SETS[0][0]
    if SETS[0][1] in found and connection.vendor == "sqlite":
        found[SHARES] = recall_shares.measure(recorded(service))
    json.dump(found, sys.stdout)


def _sets() -> Iterator[tuple[str, list[Chat], tuple[int, ...]]]:
    samples = os.environ.get("SAMPLES", "")
    for file, title, budgets in SETS:
        path = Path(samples) / file
        if samples and path.exists():
            yield title, recorded(path), budgets
    yield OWN[0], own(), OWN[1]


def _scores(chats: Sequence[Chat], budgets: Sequence[int]) -> dict[str, dict[str, list[Score]]]:
    """By form of question and by way of choosing: a score for each budget."""
    from chatmemory.llm import registry

    forms = {form for chat in chats for form in chat.asked}
    ways = ("last turns", "plain BM25", "recall", *((WITH_EMBEDDINGS,) if registry.embeds() else ()))
    sums = {form: {way: [[0, 0, 0, 0] for _ in budgets] for way in ways} for form in sorted(forms)}
    for chat in chats:
        stored = _Stored(chat)
        for form, questions in chat.asked.items():
            for asked in questions:
                for at, budget in enumerate(budgets):
                    for way, shown in stored.shown(asked.question, budget).items():
                        _add(sums[form][way][at], asked, shown)
    return {
        form: {way: [(a / b, c / d) for a, b, c, d in row] for way, row in rows.items()}
        for form, rows in sums.items()
    }


def _add(sums: list[int], asked: Asked, shown: Mapping[int, str]) -> None:
    there = [
        at for at in asked.evidence if any(value in shown.get(at + 1, "").lower() for value in asked.values)
    ]
    for at, number in enumerate((len(there), len(asked.evidence), bool(there), 1)):
        sums[at] += number


class _Stored:
    """A chat in the database, and as plain BM25 sees it: each message by itself, its terms counted."""

    def __init__(self, chat: Chat) -> None:
        from django.contrib.auth.models import User

        from chatmemory.llm import registry
        from conversations.importing import import_chat
        from conversations.interchange import ImportedChat, ImportedMessage
        from memory import embedding_work
        from memory.analysis import terms
        from memory.embeddings import near_now
        from memory.tokens import count_tokens

        owner, _ = User.objects.get_or_create(username="recall")
        messages = tuple(ImportedMessage(role=role, content=text) for role, text in chat.messages)  # type: ignore[arg-type]  # user or assistant
        self.row = import_chat(owner, ImportedChat(messages=messages))
        self.row.refresh_from_db()
        self.texts = {seq: text for seq, (_, text) in enumerate(chat.messages, start=1)}
        self.tokens = {seq: count_tokens(text) + 4 for seq, text in self.texts.items()}
        self.terms = {seq: terms(text) for seq, text in self.texts.items()}
        self.usual = sum(map(len, self.terms.values())) / len(self.terms)
        self.embeds = registry.embeds()
        self.near = cache(partial(near_now, self.row.pk))
        if self.embeds:
            embedding_work.catch_up(self.row.pk, until=inf)

    def shown(self, question: str, budget: int) -> dict[str, dict[int, str]]:
        """By way of choosing: what of which messages a prompt of `budget` tokens would show."""
        shown = {
            "last turns": self._filled({}, budget),
            "plain BM25": self._bm25(question, budget),
            "recall": self._recalled(question, budget),
        }
        if self.embeds:
            shown[WITH_EMBEDDINGS] = self._recalled(question, budget, self.near(question))
        return shown

    def _recalled(self, question: str, budget: int, near: Sequence[int] = ()) -> dict[int, str]:
        from memory.recall import recall

        found = recall(self.row, question, before_seq=self.row.last_seq + 1, room=budget, near=near)
        shown: dict[int, str] = {}
        for excerpt in found.excerpts:
            if excerpt.tokens <= budget:
                budget -= excerpt.tokens
                for quote in excerpt.quotes:
                    piece = found.said[quote.seq].text[quote.start : quote.end]
                    shown[quote.seq] = f"{shown.get(quote.seq, '')} {piece}"
        return self._filled(shown, budget)

    def _bm25(self, question: str, budget: int) -> dict[int, str]:
        from memory.analysis import terms

        scores: dict[int, float] = {}
        for term in set(terms(question)):
            having = {seq: said.count(term) for seq, said in self.terms.items() if term in said}
            rarity = log(1 + (len(self.terms) - len(having) + 0.5) / (len(having) + 0.5))
            for seq, times in having.items():
                length = 0.25 + 0.75 * len(self.terms[seq]) / self.usual
                scores[seq] = scores.get(seq, 0.0) + rarity * times * 2.2 / (times + 1.2 * length)
        shown: dict[int, str] = {}
        for seq in sorted(scores, key=lambda seq: (-scores[seq], -seq)):
            if self.tokens[seq] <= budget:
                budget -= self.tokens[seq]
                shown[seq] = self.texts[seq]
        return self._filled(shown, budget)

    def _filled(self, shown: dict[int, str], left: int) -> dict[int, str]:
        """`shown`, and the newest other messages that fit into what is left."""
        for seq in sorted(self.texts, reverse=True):
            if seq not in shown:
                left -= self.tokens[seq]
                if left < 0:
                    break
                shown[seq] = self.texts[seq]
        return shown


def _tables(results: Mapping[str, Mapping[str, Any]]) -> str:
    budgets = {title: sizes for _, title, sizes in SETS} | {OWN[0]: OWN[1]}
    titles = [title for title in next(iter(results.values())) if title != SHARES]
    tables = [_table(title, budgets[title], results) for title in titles]
    shares = next((found[SHARES] for found in results.values() if SHARES in found), None)
    return "\n\n".join([*tables, *([_share_table(shares)] if shares else [])])


def _share_table(shares: Mapping[str, float]) -> str:
    head = "**Whole prompts of 3,000 tokens after folding, service chats: questions whose value is in the prompt**"
    names, rule = " | ".join(shares), " ---: |" * len(shares)
    row = " | ".join(f"{100 * found:.0f} %" for found in shares.values())
    return f"{head}\n\n| `MEMORY_RECALL_SHARE` | {names} |\n| --- |{rule}\n| found | {row} |"


def _table(title: str, budgets: Sequence[int], results: Mapping[str, Mapping[str, Any]]) -> str:
    head = (
        f"**{title}**\n\n| asked by | chosen by | "
        + " | ".join(f"{size:,} tokens" for size in budgets)
        + " |"
    )
    lines = [head, "| --- | --- |" + " ---: |" * len(budgets)]
    first = next(iter(results.values()))[title]
    for form, ways in first.items():
        for way in ways:
            if way.startswith("recall"):
                lines += [
                    _row(form, f"{way}, {name}", found[title][form][way]) for name, found in results.items()
                ]
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
