"""A pause of a chat's updates, stored in its brief: only requested folds are made.

So a memory that somebody restored or edited by hand stays as it is. It ends when somebody resumes, or has memory
updated or rebuilt; or automatically, when the messages since no longer fit into a prompt
(`memory.policies.due.is_due`): nothing that is said while updates are paused is ever left out.
"""

from __future__ import annotations

from typing import Literal

from django.contrib.auth.models import User
from django.utils import timezone

from memory.models import ConversationBrief, Requested
from memory.policies.protocol import Counts

PAUSE = ("paused_at", "paused_by", "paused_with")
"""The fields of a brief that `pause` and `unpause` change."""


def pause(brief: ConversationBrief, user: User | None) -> None:
    """Stop folding from here on, and drop requested and running work. Saves nothing.

    The caller must have raised the epoch and counted what is unfolded; it decides `due` afterwards.
    """
    brief.paused_at, brief.paused_by = timezone.now(), user
    brief.paused_with = {
        "turns": brief.unfolded_turns,
        "tokens": brief.unfolded_tokens,
        "line_tokens": brief.unfolded_line_tokens,
    }
    brief.requested, brief.rebuild, brief.on_demand_at = Requested.NOTHING, None, None


def unpause(brief: ConversationBrief) -> None:
    """Allow folding again. Does not save, and does not decide `due`."""
    brief.paused_at = brief.paused_by = brief.paused_with = None


def paused_by(brief: ConversationBrief) -> Literal["user", "staff"]:
    """Who paused updates: the chat's owner, or somebody else."""
    return "user" if brief.paused_by_id == brief.chat.owner_id else "staff"


def counts_at_pause(brief: ConversationBrief) -> Counts | None:
    """The counts of what was unfolded when updates were paused; None if they are not."""
    if brief.paused_at is None:
        return None
    return Counts(**(brief.paused_with or {}), window_turns=0, window_tokens=0)
