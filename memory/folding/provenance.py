"""Provenance of a revision: a hash of the texts that went into it, and which of their salient spans it retains.

Pure: turns and a state in, values out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

from chatmemory.text.spans import LIST_CAP, Retained, SpanIndex, retained, spans
from memory.history.turns import Turn, assistant_text
from memory.policies.protocol import Policy, State

NOTHING_RETAINED = Retained([], [], 1.0)


def source_hash(turns: Iterable[Turn], before: str = "") -> str:
    """Hash `turns` as a chain of SHA-256: each over the previous hash and the turn's two texts, as a JSON list.

    `before` is the hash so far, if turns come in several bites.
    """
    for turn in turns:
        link = json.dumps([before, turn.user, assistant_text(turn)])
        before = hashlib.sha256(link.encode()).hexdigest()
    return before


def retained_in(policy: Policy, state: State, turns: Sequence[Turn]) -> Retained:
    """Return which salient spans of `turns` are retained in the state as the model reads it."""
    return retained(text_of(turns), rendered(policy, state))


class RetainedTally:
    """Counts which salient spans of many sources a state retains. A span counts once in each source that has it."""

    def __init__(self, policy: Policy, state: State) -> None:
        self._holding = SpanIndex(rendered(policy, state))
        self._kept: dict[str, str] = {}
        self._lost: dict[str, str] = {}
        self._held = self._total = 0

    def take(self, turn: Turn) -> None:
        """Count the spans of `turn`."""
        found = spans(text_of([turn]))
        self._total += len(found)
        for span in found:
            is_held = span in self._holding
            self._held += is_held
            (self._kept if is_held else self._lost)[span.casefold()] = span

    def retained(self) -> Retained:
        """The result."""
        share = self._held / self._total if self._total else 1.0
        kept, lost = list(self._kept.values())[:LIST_CAP], list(self._lost.values())[:LIST_CAP]
        return Retained(kept, lost, share)


def text_of(turns: Sequence[Turn]) -> str:
    """All texts of `turns`, joined by newlines."""
    return "\n".join(side for turn in turns for side in (turn.user, turn.assistant) if side)


def rendered(policy: Policy, state: State) -> str:
    """The state as the model reads it."""
    return "\n".join(section.text for section in policy.render(state))
