"""The trace of a fact through a chat: who said it, which version of the summary lost it, whether a prompt has it now.

Messages are found by the recall index. The number of versions read is bounded, whatever the chat's length.
`memory.explain.fact` decides what they contain. Also, which versions led to the memory in use, and the turns that each
folded: rows are read without their texts, and `memory.explain.timeline` decides which of them count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import F, Q

from conversations.models import Chat
from memory.briefs import text_of
from memory.context.build import preview
from memory.explain.fact import TracedFact, held_spans, ways_in
from memory.explain.timeline import Fold, LineageStep, Versions, lineage, on_lineage
from memory.models import ConversationBrief, RevisionKind, SummaryRevision
from memory.recall.question import read_question
from memory.recall.ranking import Recall
from memory.recall.search import PassageMatches, said_in

MOST_SHOWN = 20
"""The most messages shown of those that say it."""
MAX_VERSIONS = 200
"""The newest versions that are read."""
_READ = (
    "pk version parent kind policy global_summary state from_seq through_seq created_at forgotten_at".split()
)


class TracedSpan(NamedTuple):
    """Consecutive versions of the summary that have the fact, and the next one, which lost it, if any."""

    from_version: int
    through_version: int
    lost: SummaryRevision | None


@dataclass(frozen=True, slots=True)
class TracedVersions:
    """Which of the newest versions of the summary have the fact. `is_cut`: there are older ones."""

    held: tuple[TracedSpan, ...]
    in_use: bool
    is_cut: bool

    @property
    def is_exact(self) -> bool:
        """Whether every version was read."""
        return not self.is_cut


@dataclass(frozen=True, slots=True)
class Trace:
    """Where a fact was and is."""

    text: str
    said: PassageMatches
    versions: TracedVersions
    now: tuple[str, ...]
    """In which ways the next prompt would contain the fact if the fact were the question."""
    recall: Recall | None
    """Whether that prompt would search earlier messages for it, and why."""

    @property
    def is_said_elsewhere(self) -> bool:
        """Whether there may be older messages that say it than those of `said.hits`."""
        return self.said.is_cut or len(self.said.seqs) > len(self.said.hits)


def trace_fact(chat: Chat, text: str) -> Trace | None:
    """Trace where `text` was said in `chat`, which versions had it or lost it, and how a prompt would have it now.

    No upstream is called. None if `text` has no words to search for.
    """
    asked = read_question(text, chat.owner_id)
    if not asked.words:
        return None
    now = preview(chat, text, by_meaning=False)
    fact = TracedFact.of(asked)
    said = said_in(chat, asked, MOST_SHOWN)
    brief = ConversationBrief.objects.filter(chat=chat).first()
    versions = _versions(brief, fact) if brief else TracedVersions((), in_use=False, is_cut=False)
    now_in = ways_in([(section.kind, section.text) for section in now.sections], fact)
    return Trace(text, said, versions, tuple(now_in), now.plan.recall)


def _versions(brief: ConversationBrief, fact: TracedFact) -> TracedVersions:
    rows = SummaryRevision.objects.filter(chat_id=brief.chat_id).order_by("-version").only("chat_id", *_READ)
    versions = {row.version: row for row in reversed(rows[:MAX_VERSIONS])}
    spans = held_spans((version, fact.is_in(text_of(row))) for version, row in versions.items())
    held = tuple(
        TracedSpan(span.from_version, span.through_version, versions.get(span.lost_in or 0)) for span in spans
    )
    return TracedVersions(held, fact.is_in(text_of(brief)), brief.version > len(versions))


# Lineage


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
