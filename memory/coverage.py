"""Where each finished turn of a chat stands now: in the summary, in the prompt, in a line of it, or in none.

Pure, from counts and a plan. How it is drawn is not known here, but for the shares of a bar.
"""

from __future__ import annotations

from dataclasses import dataclass

from memory.planned import Plan


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the bar. `start` and `width` are percent of all turns."""

    kind: str
    label: str
    turns: int
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class Coverage:
    """Turns by where they stand. `gap` has neither summary, text nor line: left to recall."""

    folded: int
    verbatim: int
    lines: int
    gap: int

    @property
    def total(self) -> int:
        return self.folded + self.verbatim + self.lines + self.gap

    @property
    def parts(self) -> list[Part]:
        """The four parts in order of the chat, oldest first, as they follow each other on a bar."""
        labels = {
            "folded": "Folded into the summary",
            "gap": "Not in the prompt: left to recall",
            "lines": "In the prompt as a line each",
            "verbatim": "In the prompt verbatim",
        }
        parts: list[Part] = []
        before = 0
        for kind, label in labels.items():
            turns: int = getattr(self, kind)
            parts.append(Part(kind, label, turns, self._percent(before), self._percent(turns)))
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
