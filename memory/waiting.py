"""Chats whose memory waits for work, by what it waits for: as the overview counts them, and as lists are narrowed.

All are found by the index of briefs that wait. A chat can be in several states at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import models
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from memory import leasing
from memory.models import ConversationBrief, Requested


@dataclass(frozen=True, slots=True)
class State:
    """What it is called, and which of the briefs that wait are in it."""

    label: str
    condition: Q
    is_trouble: bool = False


STATES = {
    "due": State("Due to be folded", Q(due=True)),
    "parked": State("Waiting for their next attempt", Q(next_attempt_at__gt=Now())),
    "failing": State("Failing", Q(attempts__gt=0), is_trouble=True),
    "degraded": State("Made by the built-in summarizer", Q(degraded=True), is_trouble=True),
    "update": State("Asked to be summarized", Q(requested=Requested.UPDATE)),
    "rebuild": State("Being rebuilt, or asked to be", Q(requested=Requested.REBUILD)),
}
"""By the name that links use."""


def waiting() -> QuerySet[ConversationBrief]:
    """The briefs of chats with work, in the order of their index."""
    return ConversationBrief.objects.filter(leasing.WANTED).order_by("next_attempt_at")


def counts(most: int) -> tuple[int, dict[str, int]]:
    """How many of the first `most` chats with work are in each state, and how many those are in all. One query."""
    each = {name: models.Count("pk", filter=state.condition) for name, state in STATES.items()}
    found = waiting()[:most].aggregate(all=models.Count("pk"), **each)
    return found.pop("all"), found
