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

PAUSE = ("paused_at", "paused_by", "paused_seq")
"""The fields of a brief that `pause` and `unpause` change."""


def pause(brief: ConversationBrief, user: User | None) -> None:
    """Stop folding from here on, and drop requested and running work. Saves nothing.

    The caller must have raised the epoch, and decides `due` afterwards.
    """
    brief.paused_at, brief.paused_by = timezone.now(), user
    brief.paused_seq = brief.chat.last_seq
    brief.requested, brief.rebuild, brief.on_demand_at = Requested.NOTHING, None, None


def unpause(brief: ConversationBrief) -> None:
    """Allow folding again. Does not save, and does not decide `due`."""
    brief.paused_at = brief.paused_by = brief.paused_seq = None


def paused_by(brief: ConversationBrief) -> Literal["user", "staff"]:
    """Who paused updates: the chat's owner, or somebody else."""
    return "user" if brief.paused_by_id == brief.chat.owner_id else "staff"
