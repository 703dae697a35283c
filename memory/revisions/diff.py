"""What became of a memory from one revision to another: its text, word by word, and its salient spans.

They are compared as people read them, without the markup of a prompt. Of two policies, which lay out what they
remember in different ways, one replaces the other as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chatmemory.text.salience import retained
from chatmemory.text.word_diff import DiffPiece, replaced, word_diff
from memory.briefs import remembered
from memory.models import SummaryRevision
from memory.policies.readable import ReadablePart, as_text


@dataclass(frozen=True, slots=True)
class Difference:
    """What `version` says that `against` did not, and the other way round. `against` is None for nothing at all."""

    version: int
    against: int | None
    pieces: Sequence[DiffPiece]
    lost: Sequence[str]
    """Salient spans of the older text that the newer has no more."""
    gained: Sequence[str]
    policy: str
    against_policy: str | None

    @property
    def is_replaced(self) -> bool:
        """Another policy made the newer one."""
        return self.against_policy not in (None, self.policy)


def parent_of(revision: SummaryRevision) -> SummaryRevision | None:
    """The revision that this one goes on from; None for a first one, and where that one is gone."""
    if not revision.parent:
        return None
    return SummaryRevision.objects.filter(chat_id=revision.chat_id, version=revision.parent).first()


def difference(revision: SummaryRevision, against: SummaryRevision | None) -> Difference:
    """What changed from `against`, or from nothing, to `revision`."""
    older, newer = remembered(against) if against else [], remembered(revision)
    said_before, said_now = _said(older), _said(newer)
    is_other = against is not None and against.policy != revision.policy
    texts = as_text(older), as_text(newer)
    return Difference(
        version=revision.version,
        against=against.version if against else None,
        pieces=replaced(*texts) if is_other else word_diff(*texts),
        lost=retained(said_before, said_now).lost,
        gained=retained(said_now, said_before).lost,
        policy=revision.policy,
        against_policy=against.policy if against else None,
    )


def _said(parts: Sequence[ReadablePart]) -> str:
    """All of it but the headings, which are not what anybody said."""
    return "\n".join(entry.line for part in parts for entry in part.entries)
