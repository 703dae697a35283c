"""Where a revision came from, in short: which texts went into it, and which of their salient spans it still holds.

Pure: turns and a state in, values out. What a rebuild finds that memory had lost is `memory.folding.drift`'s.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

from chatmemory.text.salience import Retained, retained
from memory.history.turns import Turn, assistant_text
from memory.policies.protocol import Policy, State


def source_hash(turns: Iterable[Turn], before: str = "") -> str:
    """A chain of SHA-256 over `turns`: each over the hash before it and the turn's two texts, as a JSON list.

    `before` is the chain so far, where turns come in several bites.
    """
    for turn in turns:
        link = json.dumps([before, turn.user, assistant_text(turn)])
        before = hashlib.sha256(link.encode()).hexdigest()
    return before


def retained_in(policy: Policy, state: State, turns: Sequence[Turn]) -> Retained:
    """Which salient spans of `turns` the state, as the model reads it, still holds."""
    return retained(said_in(turns), rendered(policy, state))


def said_in(turns: Sequence[Turn]) -> str:
    """All that was said in them."""
    return "\n".join(side for turn in turns for side in (turn.user, turn.assistant) if side)


def rendered(policy: Policy, state: State) -> str:
    """The state as the model reads it."""
    return "\n".join(section.text for section in policy.render(state))
