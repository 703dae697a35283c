"""Where each turn of a chat is now: in the summary, verbatim in the next prompt, in it as a line, or left out.

Pure: from a plan, the cursor of the fold and the spans of revisions. Drawing, and reading rows, are done elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from memory.context.plan import Plan
from memory.history.turns import Turn

Versions = tuple[int, int]
"""The first and the last of a run of consecutive versions."""


class Place(StrEnum):
    """Where a turn is."""

    FOLDED = "folded"
    VERBATIM = "verbatim"
    LINE = "line"
    RECALL = "recall"
    WAITING = "waiting"
    NOTHING = "nothing"


class LineageStep(NamedTuple):
    """A revision whose parent is not the version directly before it, or a rebuild."""

    version: int
    parent: int | None
    is_rebuild: bool


class Fold(NamedTuple):
    """A revision and the messages that it folded; `id` is that of its row."""

    id: int
    version: int
    from_seq: int
    through_seq: int


@dataclass(frozen=True, slots=True)
class Mark:
    """Where one turn is. `fold` is the revision that folded it, if known."""

    place: Place
    fold: Fold | None = None
    clipped: bool = False
    """Verbatim, but cut in the middle."""
    merged: bool = False
    """Found by recall only; one line of the prompt says that there are such turns."""


def lineage(head: int, steps: Iterable[LineageStep]) -> list[Versions]:
    """Return the versions that led to `head`, itself included, newest first, back to a rebuild or the first one.

    `steps` are the revisions up to `head` that are rebuilds or whose parent is not the version before, newest first.
    """
    found: list[Versions] = []
    top = head
    for step in steps:
        if step.version > top:
            continue  # made on another branch
        found.append((step.version, top))
        top = step.parent or 0
        if step.is_rebuild or not top:
            return found
    return [*found, (1, top)] if top else found


def on_lineage(folds: Iterable[Fold], versions: Sequence[Versions]) -> list[Fold]:
    """Those of `folds` that led to the memory in use."""
    return [fold for fold in folds if any(low <= fold.version <= high for low, high in versions)]


@dataclass(frozen=True, slots=True)
class TurnPlaces:
    """Where the turns of a chat are: what the next prompt shows (`plan`), and what was folded."""

    plan: Plan
    folded_through: int = 0
    folds: Sequence[Fold] = ()
    """The folds of the current lineage that contain the turns in question."""
    pending_seq: int | None = None
    """The user message that is being answered."""

    def of(self, turn: Turn) -> Mark:
        """Where `turn` is."""
        if self.pending_seq is not None and turn.from_seq <= self.pending_seq <= turn.through_seq:
            return Mark(Place.WAITING)
        if not turn.tokens:
            return Mark(Place.NOTHING)
        return self.at(turn.from_seq, has_line=bool(turn.line))

    def at(self, seq: int, *, has_line: bool = True) -> Mark:
        """Where the turn with message `seq` is; it must have text left."""
        if seq <= self.folded_through:
            return Mark(Place.FOLDED, fold=self._fold(seq))
        for shown in self.plan.verbatim:
            if shown.from_seq <= seq <= shown.through_seq:
                return Mark(Place.VERBATIM, clipped=shown.clipped)
        if has_line and any(line.from_seq <= seq <= line.through_seq for line in self.plan.lines):
            return Mark(Place.LINE)
        merged = self.plan.merged
        return Mark(Place.RECALL, merged=merged is not None and merged.from_seq <= seq <= merged.through_seq)

    def _fold(self, seq: int) -> Fold | None:
        return next((fold for fold in self.folds if fold.from_seq <= seq <= fold.through_seq), None)
