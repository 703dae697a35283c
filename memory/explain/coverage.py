"""How a chat's turns are divided between summary and prompt, and a prompt's tokens between its sections.

Pure, from counts and a plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from memory.context.plan.plan import Plan
from memory.explain.reasons import name_of

OUTSIDE_MEMORY = ("instructions", "tools", "sources", "question", "open_turn", "attachments")
"""Sections of a prompt that are not part of memory, and do not count against its budget."""


FACTS = ("facts", "data", "card")
"""Sections that hold named facts, beside the text of the summary."""


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
        """The number that the bar shows for this part."""
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
    """The tokens of one prompt: memory by section, with what is `free`, and the sections `beside` memory."""

    tokens: int
    budget: int
    parts: tuple[Share, ...]
    beside: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Coverage:
    """Number of turns by where they are. `gap` counts turns in neither summary nor prompt: found by recall only."""

    folded: int
    verbatim: int
    lines: int
    gap: int

    @property
    def total(self) -> int:
        return self.folded + self.verbatim + self.lines + self.gap

    @property
    def parts(self) -> list[CoveragePart]:
        """The four parts of the bar, oldest turns first."""
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
    """Count how `plan` shows the unfolded turns, in addition to the folded ones."""
    merged = plan.merged.turns if plan.merged else 0
    unsaid = min(len(plan.lines), max(0, plan.unrepresented - merged))  # turns in `plan.lines` without a line
    return Coverage(folded_turns, len(plan.verbatim), len(plan.lines) - unsaid, plan.unrepresented)


def budget_of(sections: Iterable[tuple[str, int]], budget: int) -> Budget:
    """Divide `budget` by `sections`, a (kind, tokens) pair each, in the order of the prompt."""
    sections = list(sections)
    memory = [
        (_drawn(kind), name_of(kind), tokens) for kind, tokens in sections if kind not in OUTSIDE_MEMORY
    ]
    used = sum(tokens for _, _, tokens in memory)
    memory.append(("free", "Free", max(0, budget - used)))
    whole, before, parts = max(used, budget), 0, []
    for kind, label, tokens in memory:
        start, width = (round(100 * count / whole, 3) if whole else 0.0 for count in (before, tokens))
        parts.append(Share(kind, label, tokens, start, width))
        before += tokens
    beside = tuple((name_of(kind), tokens) for kind, tokens in sections if kind in OUTSIDE_MEMORY)
    return Budget(used, budget, tuple(parts), beside)


def _drawn(kind: str) -> str:
    """The style of a section's bar: that of the turns whose text it has; named facts have a style apart from prose."""
    drawn = {"lines": "lines", "window": "verbatim", "recall": "recall", "pins": "pins-part"}
    return drawn.get(kind) or ("facts-part" if kind in FACTS else "folded")
