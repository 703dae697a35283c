"""Where each turn of a chat is now: in the summary, verbatim in the next prompt, in it as a line, or left out.

From a plan, the cursor of the fold and the spans of revisions. Drawing is done elsewhere.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from memory.context.plan import Plan
from memory.history.turns import Turn
from memory.models import ConversationBrief, SummaryRevision

Place = Literal["folded", "verbatim", "line", "recall", "waiting", "nothing"]
"""Where a turn is."""


class Fold(NamedTuple):
    """A version of the memory, by the names of its columns, and the messages that were folded into it."""

    id: int
    version: int
    parent: int | None
    kind: str
    from_seq: int
    through_seq: int
    turns: int


class Mark(NamedTuple):
    """Where one turn is. `fold` is the version that folded it, if known."""

    place: Place
    fold: Fold | None = None
    clipped: bool = False
    """Verbatim, but cut in the middle."""


def lineage(head: int, versions: Iterable[Fold]) -> list[Fold]:
    """Return those of `versions` that led to `head`, itself included, newest first, back to a rebuild or the first."""
    known = {one.version: one for one in versions}
    folds: list[Fold] = []
    number: int | None = head
    while number and (one := known.get(number)):
        folds.append(one)
        number = None if one.kind == "rebuild" else one.parent
    return folds


def folds_of(brief: ConversationBrief | None) -> list[Fold]:
    """The versions from which the memory in use was made, newest first; none if nothing is folded."""
    if brief is None or not brief.folded_through_seq:
        return []
    rows = SummaryRevision.objects.filter(**brief.chat_key.columns, version__lte=brief.head)
    return lineage(brief.head, (Fold(*row) for row in rows.values_list(*Fold._fields)))


class TurnPlaces(NamedTuple):
    """Where the turns of a chat are: what the next prompt shows (`plan`), and what was folded."""

    plan: Plan
    folded_through: int = 0
    folds: Sequence[Fold] = ()
    """The folds of the lineage in use, newest first."""
    pending_seq: int | None = None
    """The user message that is being answered."""

    def of(self, turn: Turn) -> Mark:
        """Where `turn` is."""
        seq = turn.from_seq
        if self.pending_seq is not None and seq <= self.pending_seq <= turn.through_seq:
            return Mark("waiting")
        if not turn.tokens:
            return Mark("nothing")
        if seq <= self.folded_through:
            holding = (fold for fold in self.folds if fold.from_seq <= seq <= fold.through_seq)
            return Mark("folded", fold=next(holding, None))
        for shown in self.plan.verbatim:
            if shown.from_seq <= seq <= shown.through_seq:
                return Mark("verbatim", clipped=shown.clipped)
        has_line = bool(turn.line) and any(line.from_seq <= seq <= line.through_seq for line in self.plan.lines)
        return Mark("line" if has_line else "recall")
