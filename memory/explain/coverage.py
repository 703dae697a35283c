"""How the turns of a chat are spread over summary and prompt, and the tokens of a prompt over its sections.

Pure, from counts and a plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from memory.context.plan import Plan
from memory.explain.reasons import name_of

BESIDE = ("instructions", "tools", "sources", "question", "open_turn", "attachments")
"""Sections of a prompt that are no part of memory, and not of its budget."""


FACTS = ("facts", "data", "card")
"""Sections that hold what is known by name, beside a text that tells the rest."""


@dataclass(frozen=True, slots=True)
class CoveragePart:
    """One part of the bar. `start` and `width` are percent of all turns."""

    kind: str
    label: str
    turns: int
    start: float
    width: float

    @property
    def count(self) -> int:
        """What it shows, whatever the bar counts."""
        return self.turns


@dataclass(frozen=True, slots=True)
class Share:
    """One part of a prompt's budget. `count` is tokens, `start` and `width` are percent of the whole bar."""

    kind: str
    label: str
    count: int
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class Budget:
    """The tokens of one prompt: of memory by section with what is `free`, and of what stands `beside` it."""

    tokens: int
    budget: int
    parts: tuple[Share, ...]
    beside: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Coverage:
    """Turns by where they stand. `gap` has neither summary, text nor line: found by recall only."""

    folded: int
    verbatim: int
    lines: int
    gap: int

    @property
    def total(self) -> int:
        return self.folded + self.verbatim + self.lines + self.gap

    @property
    def parts(self) -> list[CoveragePart]:
        """The four parts in order of the chat, oldest first, as they follow each other on a bar."""
        labels = {
            "folded": "In the summary",
            "gap": "Not in the prompt (recall only)",
            "lines": "In the prompt as one-line summaries",
            "verbatim": "In the prompt in full",
        }
        parts: list[CoveragePart] = []
        before = 0
        for kind, label in labels.items():
            turns: int = getattr(self, kind)
            parts.append(CoveragePart(kind, label, turns, self._percent(before), self._percent(turns)))
            before += turns
        return parts

    def _percent(self, turns: int) -> float:
        return round(100 * turns / self.total, 3) if self.total else 0.0


def coverage_of(plan: Plan, folded_turns: int) -> Coverage:
    """What `plan` shows of the unfolded turns, beside the folded ones."""
    merged = plan.merged.turns if plan.merged else 0
    unsaid = min(
        len(plan.lines), max(0, plan.unrepresented - merged)
    )  # turns of the plan's lines that have none
    return Coverage(folded_turns, len(plan.verbatim), len(plan.lines) - unsaid, plan.unrepresented)


def budget_of(sections: Iterable[tuple[str, int]], budget: int) -> Budget:
    """How the tokens of `sections`, (kind, tokens) each, fill `budget`, in the order of the prompt."""
    sections = list(sections)
    memory = [(_drawn(kind), name_of(kind), tokens) for kind, tokens in sections if kind not in BESIDE]
    used = sum(tokens for _, _, tokens in memory)
    memory.append(("free", "Free", max(0, budget - used)))
    whole, before, parts = max(used, budget), 0, []
    for kind, label, tokens in memory:
        start, width = (round(100 * count / whole, 3) if whole else 0.0 for count in (before, tokens))
        parts.append(Share(kind, label, tokens, start, width))
        before += tokens
    beside = tuple((name_of(kind), tokens) for kind, tokens in sections if kind in BESIDE)
    return Budget(used, budget, tuple(parts), beside)


def _drawn(kind: str) -> str:
    """How a section is drawn: as the turns are whose text it has; what is known by name apart from what is told."""
    drawn = {"lines": "lines", "window": "verbatim", "recall": "recall", "pins": "pins-part"}
    return drawn.get(kind) or ("facts-part" if kind in FACTS else "folded")
