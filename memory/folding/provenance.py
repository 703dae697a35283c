"""Provenance of a revision: a hash of the texts that went into it, and which of their salient spans it retains.

Pure: turns and a state in, values out. `memory.folding.drift` compares a rebuild with the memory before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

from chatmemory.text.salience import Retained, retained
from memory.history.turns import Turn, assistant_text
from memory.policies.protocol import Policy, State


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
    return retained(said_in(turns), rendered(policy, state))


def said_in(turns: Sequence[Turn]) -> str:
    """All texts of `turns`, joined by newlines."""
    return "\n".join(side for turn in turns for side in (turn.user, turn.assistant) if side)


def rendered(policy: Policy, state: State) -> str:
    """The state as the model reads it."""
    return "\n".join(section.text for section in policy.render(state))
