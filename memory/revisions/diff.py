"""What became of a memory from one revision to another: its text, word by word, and its salient spans.

Revisions are read as a model reads them: all that their policy remembers, as it stands in a prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chatmemory.text.salience import retained
from chatmemory.text.word_diff import DiffPiece, word_diff
from memory.models import ConversationBrief, SummaryRevision
from memory.policies import POLICIES, State, StateSection


@dataclass(frozen=True, slots=True)
class Difference:
    """What `version` says that `against` did not, and the other way round. `against` is None for nothing at all."""

    version: int
    against: int | None
    pieces: Sequence[DiffPiece]
    lost: Sequence[str]
    """Salient spans of the older text that the newer has no more."""
    gained: Sequence[str]


def remembered(row: ConversationBrief | SummaryRevision) -> list[StateSection]:
    """The state's sections; for a plain summary, and for a policy that is no more, the summary alone."""
    state = State.from_json(row.global_summary, row.state)
    if state.data and row.policy in POLICIES:
        return POLICIES[row.policy].render(state)
    return [StateSection("summary", row.global_summary)] if row.global_summary else []


def text_of(row: ConversationBrief | SummaryRevision) -> str:
    """The sections as one text, to be compared with another revision's."""
    return "\n\n".join(section.text for section in remembered(row))


def parent_of(revision: SummaryRevision) -> SummaryRevision | None:
    """The revision that this one goes on from; None for a first one, and where that one is gone."""
    if not revision.parent:
        return None
    return SummaryRevision.objects.filter(chat_id=revision.chat_id, version=revision.parent).first()


def difference(revision: SummaryRevision, against: SummaryRevision | None) -> Difference:
    """What changed from `against`, or from nothing, to `revision`."""
    older, newer = text_of(against) if against else "", text_of(revision)
    return Difference(
        version=revision.version,
        against=against.version if against else None,
        pieces=word_diff(older, newer),
        lost=retained(older, newer).lost,
        gained=retained(newer, older).lost,
    )
