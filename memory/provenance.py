"""Where a revision came from, in short: which texts went into it, and which of their salient spans it still holds.

Pure: turns and a state in, values out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

from memory.policies.protocol import Policy, State
from memory.salience import LIST_CAP, Retained, retained, spans
from memory.turns import Turn, assistant_text


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
    return retained(_text(turns), _rendered(policy, state))


def retained_of_all(policy: Policy, state: State, bites: Iterable[Sequence[Turn]]) -> Retained:
    """As `retained_in` over many bites, one in memory at a time. A span counts once in each bite it is in."""
    kept: dict[str, str] = {}
    lost: dict[str, str] = {}
    still = total = 0.0
    rendered = _rendered(policy, state)
    for bite in bites:
        text = _text(bite)
        found, number = retained(text, rendered), len(spans(text))
        still, total = still + found.share * number, total + number
        kept |= {span.casefold(): span for span in found.kept}
        lost |= {span.casefold(): span for span in found.lost}
    return Retained(
        list(kept.values())[:LIST_CAP], list(lost.values())[:LIST_CAP], still / total if total else 1.0
    )


def _text(turns: Sequence[Turn]) -> str:
    return "\n".join(side for turn in turns for side in (turn.user, turn.assistant) if side)


def _rendered(policy: Policy, state: State) -> str:
    return "\n".join(section.text for section in policy.render(state))
