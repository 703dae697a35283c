"""How far a rebuild has come: what a brief holds of it between two bites, and what of that anybody may see.

Only values: how a rebuild goes on from here is `memory.rebuilding`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from memory.models import ConversationBrief, Requested


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a rebuild has come, as `ConversationBrief.rebuild` holds it."""

    epoch: int
    policy: str
    through_seq: int = 0
    of_seq: int = 0
    """Where it ends, as things stood at its last bite."""
    summary: str = ""
    state: dict[str, Any] = field(default_factory=dict)
    turns: int = 0
    tokens: int = 0
    last_assistant_id: str = ""
    source_hash: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: str | None = "0"
    """As a decimal; None once the price of a bite was not known."""
    duration_ms: int = 0
    model: str = ""
    prompt_hash: str = ""
    degraded: bool = False
    soft_faults: list[dict[str, Any]] = field(default_factory=list)


class Told(NamedTuple):
    """What is shown of a rebuild: the last message it has folded, of which last one, and how many turns those were."""

    through_seq: int
    of_seq: int | None
    """None before its first bite."""
    turns: int


_FIELDS = {one.name for one in fields(Progress)}


def progress_of(brief: ConversationBrief, *, recovers: bool) -> Progress:
    """What was saved, if it still holds, else a beginning.

    `recovers`: what the built-in summarizer had a part in does not hold.
    """
    fresh = Progress(epoch=brief.epoch, policy=brief.chat.policy)
    saved = _saved(brief)
    if saved is None or saved.policy != fresh.policy or (recovers and saved.degraded):
        return fresh
    return saved


def told(brief: ConversationBrief) -> Told | None:
    """How far the chat's rebuild is; None where none is under way and none was asked for."""
    saved = _saved(brief)
    if saved is not None:
        return Told(saved.through_seq, saved.of_seq, saved.turns)
    return Told(0, None, 0) if brief.requested == Requested.REBUILD else None


def _saved(brief: ConversationBrief) -> Progress | None:
    """What was saved, unless something was taken out from under it, or another version of this program wrote it."""
    stored: dict[str, Any] = brief.rebuild or {}
    saved = Progress(**stored) if stored.keys() == _FIELDS else None
    return saved if saved is not None and saved.epoch == brief.epoch else None
