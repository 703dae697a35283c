"""Where each turn of a chat is now: in the summary, verbatim in the next prompt, in it as a line, or left out.

Pure: from a plan, the cursor of the fold and the spans of revisions. Drawing, and reading rows, are done elsewhere.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from memory.context.plan import Plan
from memory.history.turns import Turn


class Place(StrEnum):
    """Where a turn is."""

    FOLDED = "folded"
    VERBATIM = "verbatim"
    LINE = "line"
    RECALL = "recall"
    WAITING = "waiting"
    NOTHING = "nothing"


class Fold(NamedTuple):
    """A version of the memory, by the names of its columns, and the messages that were folded into it."""

    id: int
    version: int
    parent: int | None
    kind: str
    from_seq: int
    through_seq: int
    turns: int


@dataclass(frozen=True, slots=True)
class Mark:
    """Where one turn is. `fold` is the version that folded it, if known."""

    place: Place
    fold: Fold | None = None
    clipped: bool = False
    """Verbatim, but cut in the middle."""


def lineage(head: int, versions: Iterable[Fold]) -> list[Fold]:
    """Return those of `versions` that led to `head`, itself included, newest first, back to a rebuild or the first."""
    known = {one.version: one for one in versions}
    found: list[Fold] = []
    number: int | None = head
    while number and (one := known.get(number)):
        found.append(one)
        number = None if one.kind == "rebuild" else one.parent
    return found


@dataclass(frozen=True, slots=True)
class TurnPlaces:
    """Where the turns of a chat are: what the next prompt shows (`plan`), and what was folded."""

    plan: Plan
    folded_through: int = 0
    folds: Sequence[Fold] = ()
    """Those of the lineage in use, newest first."""
    pending_seq: int | None = None
    """The user message that is being answered."""

    def of(self, turn: Turn) -> Mark:
        """Where `turn` is."""
        seq = turn.from_seq
        if self.pending_seq is not None and seq <= self.pending_seq <= turn.through_seq:
            return Mark(Place.WAITING)
        if not turn.tokens:
            return Mark(Place.NOTHING)
        if seq <= self.folded_through:
            holding = (fold for fold in self.folds if fold.from_seq <= seq <= fold.through_seq)
            return Mark(Place.FOLDED, fold=next(holding, None))
        for shown in self.plan.verbatim:
            if shown.from_seq <= seq <= shown.through_seq:
                return Mark(Place.VERBATIM, clipped=shown.clipped)
        has_line = bool(turn.line) and any(
            line.from_seq <= seq <= line.through_seq for line in self.plan.lines
        )
        return Mark(Place.LINE if has_line else Place.RECALL)
