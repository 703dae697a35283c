"""Rows → tables for a terminal, and for pages as Markdown."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from statistics import fmean

from benchmarks.evidence.measure import Row

BEFORE = Path(__file__).with_name("before.json")
"""The share of the evidence found before the last change of recall or pins, by set and half (`--before` writes it)."""

COLUMNS: tuple[tuple[str, Callable[[Sequence[Row]], str]], ...] = (
    ("questions", lambda rows: f"{len(rows):,}"),
    ("prompt %", lambda rows: _percent(row.share for row in rows)),
    ("before %", lambda rows: _before(rows)),
    ("complete %", lambda rows: _percent(row.share == 1 for row in rows)),
    ("per 1,000", lambda rows: _per_thousand(rows)),
    ("whole room: user %", lambda rows: _percent(row.by_users_messages for row in rows)),
    ("chunks %", lambda rows: _percent(row.by_chunks for row in rows)),
    ("BM25 user %", lambda rows: _percent(row.beside_by_users_messages for row in rows)),
    ("BM25 chunks %", lambda rows: _percent(row.beside_by_chunks for row in rows)),
    ("memory", lambda rows: f"{fmean(row.memory_tokens for row in rows):,.0f}"),
    ("window", lambda rows: _section(rows, "window")),
    ("lines", lambda rows: _section(rows, "lines")),
    ("recall", lambda rows: _section(rows, "recall")),
    ("other", lambda rows: _others(rows)),
    ("prompt", lambda rows: f"{fmean(row.prompt_tokens for row in rows):,.0f}"),
    ("stable %", lambda rows: _stable(rows)),
)
"""Column headings, and the function that computes each cell from the rows of a line."""


ON_PAGE = (
    "questions",
    "prompt %",
    "before %",
    "complete %",
    "per 1,000",
    "BM25 user %",
    "BM25 chunks %",
    "memory",
    "recall",
    "stable %",
)
NAMES = {
    "beam": "An assistant's chats (BEAM-100K 1–10)",
    "beam500k": "An assistant's longer chats (BEAM-500K 1–17)",
    "gatemem": "Many people, one memory, asked in mid-chat (GateMem, office and household)",
    "realmem": "Requests in mid-chat, in people's own words (RealMem, five people)",
    "realtalk": "People's chats (REALTALK 1–5)",
    "locomo": "People's chats (LoCoMo)",
    "longmemeval": "An assistant's chats (LongMemEval)",
    "tau": "Service chats (tau-bench, airline)",
    "tm4": "Small orders (TM-4)",
    "languages": "Eleven languages",
}


def page(rows: Sequence[Row]) -> str:
    """Return one table of all sets and their halves, with fewer columns, as `docs/prompt.md` shows it."""
    lines: list[tuple[str, Sequence[Row]]] = []
    for name in dict.fromkeys(row.set for row in rows):
        whole, *halves = _halves([row for row in rows if row.set == name])
        lines += [(NAMES[name], whole[1]), *((f"– {label}", some) for label, some in halves)]
    return _table("", lines, ON_PAGE)


def table(name: str, rows: Sequence[Row]) -> str:
    """Return a Markdown table of one set: all of it, both halves, and each kind of question."""
    kinds = sorted({row.kind for row in rows})
    by_kind = [(kind.replace("_", " "), [row for row in rows if row.kind == kind]) for kind in kinds]
    lines = [*_halves(rows), *(by_kind if len(kinds) > 1 else [])]
    return _table(name, lines, [head for head, _ in COLUMNS if head != "before %"])


def _halves(rows: Sequence[Row]) -> list[tuple[str, Sequence[Row]]]:
    odd, even = [row for row in rows if row.is_odd], [row for row in rows if not row.is_odd]
    return [("all", rows), ("odd half", odd), ("even half", even)]


def figures(rows: Sequence[Row]) -> dict[str, float]:
    """Return the share of the evidence that is in the prompt, in percent, by set and half."""
    sets = dict.fromkeys(row.set for row in rows)
    parts = [some for name in sets for _, some in _halves([row for row in rows if row.set == name]) if some]
    return {_key(some): round(100 * fmean(row.share for row in some), 1) for some in parts}


def _key(rows: Sequence[Row]) -> str:
    halves = {row.is_odd for row in rows}
    return rows[0].set if len(halves) == 2 else f"{rows[0].set}/{'odd' if True in halves else 'even'}"


def _before(rows: Sequence[Row]) -> str:
    known = json.loads(BEFORE.read_text(encoding="utf-8")).get(_key(rows))
    return "–" if known is None else f"{known:.1f}"


def _table(name: str, lines: Iterable[tuple[str, Sequence[Row]]], columns: Collection[str]) -> str:
    shown = [one for one in COLUMNS if one[0] in columns]
    cells = [[name, *(head for head, _ in shown)]]
    cells += [[label, *(cell(some) for _, cell in shown)] for label, some in lines if some]
    return aligned(cells)


def aligned(cells: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with padded columns; the first line is its heading."""
    widths = [max(len(line[at]) for line in cells) for at in range(len(cells[0]))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join("| " + " | ".join(_padded(line, widths)) + " |" for line in [cells[0], rule, *cells[1:]])


def _padded(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *others = line
    return [
        first.ljust(widths[0]),
        *(one.rjust(width) for one, width in zip(others, widths[1:], strict=True)),
    ]


def _percent(shares: Iterable[float]) -> str:
    return f"{100 * fmean(shares):.1f}"


def _per_thousand(rows: Sequence[Row]) -> str:
    """Pieces of evidence found, per 1,000 tokens of the prompts."""
    found = sum(row.share * row.pieces for row in rows)
    return f"{1000 * found / sum(row.prompt_tokens for row in rows):.2f}"


def _section(rows: Sequence[Row], kind: str) -> str:
    return f"{fmean(row.sections.get(kind, 0) for row in rows):,.0f}"


def _others(rows: Sequence[Row]) -> str:
    named = {"window", "lines", "recall"}
    tokens = (sum(one for kind, one in row.sections.items() if kind not in named) for row in rows)
    return f"{fmean(tokens):,.0f}"


def _stable(rows: Sequence[Row]) -> str:
    later = [row for row in rows if row.stable_tokens]
    tokens = sum(row.prompt_tokens for row in later)
    return f"{100 * sum(row.stable_tokens for row in later) / tokens:.1f}" if tokens else "–"
