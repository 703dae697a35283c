"""Which turns of a chat can be folded now, and the oldest bite of them.

Counts and seqs decide; texts are loaded only for the bite. Reads only. However long the backlog, the cost is the
counts of the newest `MAX_TURNS` turns and one bite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings

from memory.briefs import Memory
from memory.history.rows import unfolded_turns
from memory.history.turns import Turn, take_bite
from memory.policies import Counts
from memory.policies.due import totals_of


@dataclass(frozen=True, slots=True)
class Bite:
    """The oldest turns that fit into one request."""

    turns: tuple[Turn, ...]
    """The turns as stored."""
    shown: tuple[Turn, ...]
    """The turns as the summarizer gets them: a giant turn is clipped."""

    @property
    def counts(self) -> Counts:
        """The counts of these turns."""
        return totals_of(self.turns)

    @property
    def last_assistant_id(self) -> UUID | None:
        """The id of the last assistant message among them; None if there is none."""
        ids = (turn.last_assistant_id for turn in reversed(self.turns))
        return next((message_id for message_id in ids if message_id), None)


def beyond_window(memory: Memory, newest: Sequence[Turn], after_seq: int) -> int:
    """Return the seq of the last message beyond the policy's window; `after_seq` if there is none after it."""
    return _through(newest, memory.turns_beyond(newest), after_seq)


def through_due(memory: Memory, newest: Sequence[Turn], after_seq: int) -> int:
    """The same for a fold that is due by itself: the policy may leave some of the turns beyond its window."""
    return _through(newest, memory.turns_due(newest), after_seq)


def _through(newest: Sequence[Turn], folds: int, after_seq: int) -> int:
    if folds:
        return newest[folds - 1].through_seq
    return newest[0].from_seq - 1 if newest else after_seq


def next_bite(chat_id: UUID, after_seq: int, through_seq: int) -> Bite | None:
    """Return the oldest turns after `after_seq` up to `through_seq` that fit one request. None if they have no text."""
    if through_seq <= after_seq:
        return None
    size = settings.MEMORY_LIMITS.bite_tokens
    turns = unfolded_turns(chat_id, after_seq, limit_tokens=size, before_seq=through_seq + 1)
    shown = take_bite(turns, size)
    if not any(turn.tokens for turn in shown):
        return None
    return Bite(turns=tuple(turns[: len(shown)]), shown=tuple(shown))
