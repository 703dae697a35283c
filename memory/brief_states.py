"""The states that a chat's memory can be in, several at once: how briefs are found by them, and which matters most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from django.db.models import Q
from django.db.models.functions import Now

from memory.models import ConversationBrief, Requested

CONDITIONS: Final[Mapping[str, Q]] = {
    "due": Q(due=True),
    "parked": Q(next_attempt_at__gt=Now()),
    "failing": Q(attempts__gt=0),
    "degraded": Q(degraded=True),
    "paused": Q(paused_at__isnull=False),
    "requested": ~Q(requested=Requested.NOTHING),
    "update": Q(requested=Requested.UPDATE),
    "rebuild": Q(requested=Requested.REBUILD),
}
"""By the names that links and commands use."""

MainState = Literal["failing", "degraded", "requested", "due", "paused", "current"]


def main_state(brief: ConversationBrief | None) -> MainState:
    """What matters most of it; a chat in which nothing was said may have no brief."""
    if brief is None:
        return "current"
    if brief.attempts:
        return "failing"
    if brief.degraded:
        return "degraded"
    if brief.requested or brief.due:
        return "requested" if brief.requested else "due"
    return "paused" if brief.paused_at else "current"
