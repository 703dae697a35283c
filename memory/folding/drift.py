"""How far memory had drifted from the messages: what a rebuild finds that the memory before it had lost or made up.

Pure: turns and states in, values out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from chatmemory.text.salience import LIST_CAP, Holding, Retained, spans
from memory.folding.provenance import rendered, said_in
from memory.history.turns import Turn
from memory.policies.protocol import Policy, State


class Survey:
    """A rebuilt state held against all its originals, a bite at a time, and beside it the state that it replaces.

    A span counts once in each bite it is in. `before` is None where the state before is not to be compared.
    """

    def __init__(self, policy: Policy, state: State, before: State | None, version: int) -> None:
        after_text = rendered(policy, state)
        before_text = "" if before is None else rendered(policy, before)
        self._after, self._both, self._before = _Tally(after_text), _Tally(after_text), _Tally(before_text)
        self._of_after, self._of_before = _figures(after_text), _figures(before_text)
        self._unsaid = {*self._of_after, *self._of_before}
        self._compares, self._version = before is not None, version
        self._cut_at: int | None = None

    def take(self, bite: Sequence[Turn], *, of_both: bool) -> None:
        """Hold the states against these turns; `of_both`: the state before had folded them, too."""
        text = said_in(bite)
        found = spans(text)
        tallies = (self._after, self._both, self._before) if of_both else (self._after,)
        for tally in tallies:
            tally.take(found)
        if self._unsaid:
            said = Holding(text, self._unsaid)
            self._unsaid = {span for span in self._unsaid if span not in said}

    def end_at(self, seq: int) -> None:
        """Take no more: the originals after message `seq` are not looked at, and how far memory drifted is not told."""
        self._cut_at = seq

    @property
    def retained(self) -> Retained:
        """What the rebuilt state holds of the originals."""
        tally = self._after
        return Retained(tally.kept[:LIST_CAP], tally.lost[:LIST_CAP], tally.share, self._cut_at)

    @property
    def drift(self) -> dict[str, Any] | None:
        """How far the state before was from what both had folded, as compared with the rebuilt one. None: not compared.

        `lost` are spans of the originals that the rebuilt state holds and the one before did not, `only_before` the
        other way round; `added` are numbers, ids and addresses of either that no original has.
        """
        before, after = self._before, self._both
        if not (self._compares and before.total) or self._cut_at is not None:
            return None
        return {
            "against": self._version,
            "share": {"before": before.share, "after": after.share},
            "lost": _of(after.kept, before.lost)[:LIST_CAP],
            "only_before": _of(before.kept, after.lost)[:LIST_CAP],
            "added": {
                "before": _of(self._of_before, self._unsaid)[:LIST_CAP],
                "after": _of(self._of_after, self._unsaid)[:LIST_CAP],
            },
        }


class _Tally:
    """Which spans of many sources a text holds."""

    def __init__(self, text: str) -> None:
        self._holding = Holding(text)
        self._kept: dict[str, str] = {}
        self._lost: dict[str, str] = {}
        self.held = self.total = 0

    def take(self, found: Sequence[str]) -> None:
        """Count the spans of one source."""
        self.total += len(found)
        for span in found:
            is_held = span in self._holding
            self.held += is_held
            (self._kept if is_held else self._lost)[span.casefold()] = span

    @property
    def share(self) -> float:
        return self.held / self.total if self.total else 1.0

    @property
    def kept(self) -> list[str]:
        return list(self._kept.values())

    @property
    def lost(self) -> list[str]:
        return list(self._lost.values())


def _figures(text: str) -> list[str]:
    """The spans of `text` that nobody writes by chance: with a digit or an @ in them."""
    return [span for span in spans(text) if any(char.isdigit() or char == "@" for char in span)]


def _of(some: Iterable[str], others: Iterable[str]) -> list[str]:
    """Those of `some` that are among `others`, case aside."""
    known = {span.casefold() for span in others}
    return [span for span in some if span.casefold() in known]
