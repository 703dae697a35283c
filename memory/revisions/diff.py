"""The difference between two revisions of a memory: its text, word by word, and its salient spans.

They are compared as people read them, without the markup of a prompt. If their policies differ, so do their layouts,
and the older text is shown as replaced by the newer as a whole.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Literal, NamedTuple

from chatmemory.text.spans import SpanIndex, retained
from memory.briefs import readable_parts
from memory.models import SummaryRevision
from memory.policies.state_parts import EditField, plain_text

MAX_WORDS = 5_000
"""Texts with more words are not compared: one replaces the other."""
MAX_PAIRS = 250_000
"""Words times words that are compared in full. In longer texts, words that make up more than a hundredth only count
beside others that match (`autojunk`): at most a second for any texts, where a full comparison takes minutes.
"""

_WORD = re.compile(r"\n\s*|\s+|(?:\w+|[^\w\s])[^\S\n]*")
"""Matches a word with the space after it: as words of their own, spaces would be most of what two texts have in
common. Line breaks are separate, so that an added line does not change the line before it.
"""

Op = Literal["equal", "delete", "insert"]


class DiffPiece(NamedTuple):
    """A run of text that is in both texts, only in the older (`delete`), or only in the newer (`insert`)."""

    op: Op
    text: str


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


def word_diff(older: str, newer: str) -> list[DiffPiece]:
    """The pieces of both texts in order: those not inserted join to `older`, those not deleted to `newer`."""
    before, after = _WORD.findall(older), _WORD.findall(newer)
    if max(len(before), len(after)) > MAX_WORDS:
        before, after = [older], [newer]
    is_long = len(before) * len(after) > MAX_PAIRS
    pieces: list[DiffPiece] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=is_long).get_opcodes():
        old, new = "".join(before[i1:i2]), "".join(after[j1:j2])
        if tag == "equal":
            pieces.append(DiffPiece("equal", old))
        else:
            pieces += DiffPiece("delete", old), DiffPiece("insert", new)
    return _joined(pieces)


def replaced(older: str, newer: str) -> list[DiffPiece]:
    """The pieces of two unrelated texts."""
    return _joined([DiffPiece("delete", older), DiffPiece("insert", newer)])


def _joined(pieces: Iterable[DiffPiece]) -> list[DiffPiece]:
    """`pieces` without empty ones, and with neighbours of one kind joined."""
    runs = groupby((piece for piece in pieces if piece.text), key=lambda piece: piece.op)
    return [DiffPiece(op, "".join(piece.text for piece in run)) for op, run in runs]
