"""Which revisions led to the memory in use, and the turns that each of them folded.

Reads rows of revisions without their texts; `memory.explain.timeline` decides which of them count.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import F, Q

from memory.explain.timeline import Fold, LineageStep, Versions, lineage, on_lineage
from memory.models import ConversationBrief, RevisionKind, SummaryRevision


def versions_of(brief: ConversationBrief | None) -> list[Versions]:
    """The versions from which the memory in use was made, newest first; none if nothing is folded."""
    if brief is None or not brief.folded_through_seq:
        return []
    revisions = SummaryRevision.objects.filter(chat_id=brief.chat_id, version__lte=brief.head)
    odd = revisions.filter(Q(kind=RevisionKind.REBUILD) | Q(parent=None) | ~Q(parent=F("version") - 1))
    rows = odd.order_by("-version").values_list("version", "parent", "kind")
    return lineage(
        brief.head,
        (LineageStep(version, parent, kind == RevisionKind.REBUILD) for version, parent, kind in rows),
    )


def folds_of(brief: ConversationBrief, versions: Sequence[Versions], first: int, last: int) -> list[Fold]:
    """Those of `versions` that folded any of the messages `first` to `last`, newest first."""
    if first > brief.folded_through_seq:
        return []
    holding = SummaryRevision.objects.filter(
        chat_id=brief.chat_id, version__lte=brief.head, from_seq__lte=last, through_seq__gte=first
    )
    rows = holding.order_by("-version").values_list("id", "version", "from_seq", "through_seq")
    return on_lineage((Fold(*row) for row in rows), versions)


def folded_turns(brief: ConversationBrief | None, versions: Sequence[Versions]) -> int:
    """The number of turns that the memory in use was made from, given its `versions`."""
    if brief is None or not versions:
        return 0
    rows = SummaryRevision.objects.filter(
        chat_id=brief.chat_id, version__range=(versions[-1][0], brief.head)
    ).values_list("version", "turns")
    places = iter(versions)
    low, high = next(places)
    total = 0
    for version, turns in rows.order_by("-version"):
        while version < low:
            low, high = next(places)
        total += turns if version <= high else 0
    return total
