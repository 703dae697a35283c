"""Conditions of a chat's memory, of which several can hold at once: the queries for them, and which one to show."""

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
"""Queries by the names that links and commands use."""

MainState = Literal["failing", "degraded", "requested", "due", "paused", "current"]


def main_state(brief: ConversationBrief | None) -> MainState:
    """Return the state of a brief that matters most. A chat without messages may have no brief: it is `current`."""
    if brief is None:
        return "current"
    if brief.attempts:
        return "failing"
    if brief.degraded:
        return "degraded"
    if brief.requested or brief.due:
        return "requested" if brief.requested else "due"
    return "paused" if brief.paused_at else "current"
