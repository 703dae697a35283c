"""What a plan is made from: counts and lines of unfolded turns, the size of the state, limits. No texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memory.excerpts import Excerpt
from memory.limits import MemoryLimits
from memory.policies.protocol import StateSection
from memory.tokens import MESSAGE_OVERHEAD, count_tokens
from memory.turns import Turn


@dataclass(frozen=True, slots=True)
class Material:
    """What a plan is made from. `turns` all have text (whether loaded or not) and are in order."""

    state_tokens: tuple[int, ...]
    """Of each section of the state, overhead included."""
    turns: tuple[Turn, ...]
    older_turns: int
    older_from_seq: int | None
    limits: MemoryLimits
    window_turns: int
    anchor_seq: int
    excerpts: tuple[Excerpt, ...] = ()
    """Of earlier turns, the best first."""
    recall_tokens: int | None = None
    """What excerpts may have; None: whatever is left."""
    lean: bool = False
    """Turns before the window are lines, for the sake of excerpts."""
    may_show: frozenset[int] | None = None
    """`from_seq` of the turns that may be verbatim: those whose text is there. None: any."""

    def showable(self, index: int) -> bool:
        """True if turn `index` may be verbatim."""
        return self.may_show is None or self.turns[index].from_seq in self.may_show


def gather(
    state: Sequence[StateSection],
    turns: Sequence[Turn],
    older_turns: int,
    older_from_seq: int | None,
    limits: MemoryLimits,
    window_turns: int,
    anchor_seq: int,
    excerpts: Sequence[Excerpt] = (),
    recall_tokens: int | None = None,
    *,
    lean: bool = False,
) -> Material:
    """What `choose_within` works on: the arguments of `choose`, the state counted, turns without text left
    out."""
    return Material(
        state_tokens=tuple(count_tokens(section.text) + MESSAGE_OVERHEAD for section in state),
        turns=tuple(turn for turn in turns if turn.tokens),
        older_turns=older_turns,
        older_from_seq=older_from_seq,
        limits=limits,
        window_turns=max(1, window_turns) if limits.enabled else 1,
        anchor_seq=anchor_seq,
        excerpts=tuple(excerpts) if limits.enabled else (),
        recall_tokens=recall_tokens,
        lean=lean,
    )
