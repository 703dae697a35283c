"""The difference between two revisions of a memory: its text, word by word, and its salient spans.

They are compared as people read them, without the markup of a prompt. If their policies differ, so do their layouts,
and the older text is shown as replaced by the newer as a whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from chatmemory.text.spans import SpanIndex, retained
from chatmemory.text.word_diff import DiffPiece, replaced, word_diff
from memory.briefs import readable_parts
from memory.models import SummaryRevision
from memory.policies.state_parts import EditField, plain_text


@dataclass(frozen=True, slots=True)
class Difference:
    """What changed from `against` to `version`. `against` is None for a comparison with nothing."""

    version: int
    against: int | None
    pieces: Sequence[DiffPiece]
    lost: Sequence[str]
    """Salient spans of the older text that the newer no longer has."""
    gained: Sequence[str]
    policy: str
    against_policy: str | None

    @property
    def is_replaced(self) -> bool:
        """The newer one was made by another policy."""
        return self.against_policy not in (None, self.policy)

    @property
    def is_same(self) -> bool:
        return all(piece.op == "equal" for piece in self.pieces)


def parent_of(revision: SummaryRevision) -> SummaryRevision | None:
    """The revision from which this one was made; None for a first one, or if the parent is gone."""
    if not revision.parent:
        return None
    return SummaryRevision.objects.filter(**revision.chat_key.columns, version=revision.parent).first()


def difference(revision: SummaryRevision, against: SummaryRevision | None) -> Difference:
    """Compare `revision` with `against`, or with nothing."""
    older, newer = readable_parts(against) if against else [], readable_parts(revision)
    text_before, text_now = _body(older), _body(newer)
    is_other = against is not None and against.policy != revision.policy
    texts = plain_text(older), plain_text(newer)
    return Difference(
        version=revision.version,
        against=against.version if against else None,
        pieces=replaced(*texts) if is_other else word_diff(*texts),
        lost=retained([text_before], SpanIndex(text_now)).listed["lost"],
        gained=retained([text_now], SpanIndex(text_before)).listed["lost"],
        policy=revision.policy,
        against_policy=against.policy if against else None,
    )


def _body(parts: Sequence[EditField]) -> str:
    """The text without our headings."""
    return "\n".join(entry.line for part in parts for entry in part.entries)
