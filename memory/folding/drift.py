"""How far memory had drifted from the messages: what it had lost or made up, by comparison with a rebuild.

Pure: turns and states in, values out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from chatmemory.text.salience import LIST_CAP, Retained, SpanIndex, spans
from memory.folding.provenance import rendered, said_in
from memory.history.turns import Turn
from memory.policies.protocol import Policy, State


class Survey:
    """Compares a rebuilt state, and the state that it replaces, with the original messages, one bite at a time.

    A span counts once in each bite that contains it. `before` is None if the previous state is not to be compared.
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
        """Compare the states with these turns; `of_both`: the previous state had folded them too."""
        text = said_in(bite)
        found = spans(text)
        tallies = (self._after, self._both, self._before) if of_both else (self._after,)
        for tally in tallies:
            tally.take(found)
        if self._unsaid:
            said = SpanIndex(text, self._unsaid)
            self._unsaid = {span for span in self._unsaid if span not in said}

    def end_at(self, seq: int) -> None:
        """Stop at message `seq`: later originals are not compared, and no drift is reported."""
        self._cut_at = seq

    @property
    def retained(self) -> Retained:
        """Which spans of the originals the rebuilt state retains."""
        tally = self._after
        return Retained(tally.kept[:LIST_CAP], tally.lost[:LIST_CAP], tally.share, self._cut_at)

    @property
    def drift(self) -> dict[str, Any] | None:
        """How far the previous state was from the turns that both had folded, compared with the rebuilt one.

        None if they were not compared. `lost` are spans of the originals that the rebuilt state has and the previous
        one did not, `only_before` the reverse; `added` are numbers, ids and addresses of either state that no
        original has.
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
    """Counts which spans of many sources a text has."""

    def __init__(self, text: str) -> None:
        self._holding = SpanIndex(text)
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
    """The spans of `text` that nobody writes by chance: those with a digit or an @."""
    return [span for span in spans(text) if any(char.isdigit() or char == "@" for char in span)]


def _of(some: Iterable[str], others: Iterable[str]) -> list[str]:
    """The spans of `some` that are also in `others`, ignoring case."""
    known = {span.casefold() for span in others}
    return [span for span in some if span.casefold() in known]
