"""Which excerpts of earlier turns a plan shows: the best that fit, none of a turn that is shown word for word anyhow.

Pure, from costs and seqs alone. How much room there is for them is decided in `memory.plan`.
"""

from __future__ import annotations

from collections.abc import Sequence

from memory.excerpts import Excerpt, excerpts_head_cost
from memory.turns import Turn


class Picking:
    """The excerpts that are shown so far, of those that were found, best first."""

    def __init__(self, found: Sequence[Excerpt]) -> None:
        self._found = found
        self.taken: list[Excerpt] = []

    @property
    def cost(self) -> int:
        """Tokens of the message that carries them; 0 without any."""
        return sum(excerpt.tokens for excerpt in self.taken) + excerpts_head_cost() if self.taken else 0

    def fill(self, room: int, verbatim: Sequence[Turn]) -> None:
        """Take the best that are not of `verbatim`, as long as all together cost at most `room`."""
        for excerpt in self._found:
            head = 0 if self.taken else excerpts_head_cost()
            is_new = excerpt not in self.taken and not _is_in(excerpt, verbatim)
            if is_new and self.cost + head + excerpt.tokens <= room:
                self.taken.append(excerpt)

    def instead(self, verbatim: Sequence[Turn]) -> None:
        """Take others in the place of those whose turns came to be among `verbatim`, at no more cost."""
        room = self.cost
        kept = [excerpt for excerpt in self.taken if not _is_in(excerpt, verbatim)]
        if len(kept) < len(self.taken):
            self.taken = kept
            self.fill(room, verbatim)


def _is_in(excerpt: Excerpt, turns: Sequence[Turn]) -> bool:
    """Whether `excerpt` is of one of `turns`."""
    seq = excerpt.quotes[0].seq
    return any(turn.from_seq <= seq <= turn.through_seq for turn in turns)
