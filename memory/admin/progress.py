"""The progress of the current work on a chat's memory: a state, a sentence and numbers, as JSON for its pages.

It is computed from the brief and the time. It contains no text of the chat or of any error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path
from django.utils import timezone

from memory.folding.rebuild import RebuildProgress, current_progress
from memory.models import ConversationBrief, Requested
from memory.worker import alive


class ProgressPage(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """Adds the URL that pages poll for progress to the admin of briefs. The response has no content of chats."""

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.progress_view)
        return [
            path("<uuid:chat_id>/progress/", view, name="memory_conversationbrief_progress"),
            *super().get_urls(),
        ]

    def progress_view(self, request: HttpRequest, chat_id: UUID) -> JsonResponse:
        """The current progress, for users who may see briefs."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        briefs = ConversationBrief.objects.defer("global_summary", "state", "options", "last_error")
        brief = get_object_or_404(briefs, pk=chat_id)
        return JsonResponse(
            under_way(brief, timezone.now(), has_worker).to_json()
        )  # the admin marks it as not to be cached


Doing = Literal["waiting", "folding", "rebuilding", "failed", "paused", "done"]

NO_WORKER = "No worker is running: start `manage.py worker`."
SIGNS: dict[Doing, str] = {
    "waiting": "…",
    "folding": "↧",
    "rebuilding": "⟳",
    "failed": "⚠",
    "paused": "‖",
    "done": "✓",
}


@dataclass(frozen=True, slots=True)
class WorkProgress:
    """The state of the work on one chat's memory. `of` is None while the amount of work is unknown."""

    doing: Doing
    sentence: str
    done: int
    of: int | None
    head: int
    """The revision in use."""

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do."""
        return self.doing in ("done", "paused")

    @property
    def sign(self) -> str:
        """The symbol shown beside the sentence."""
        return SIGNS[self.doing]

    def to_json(self) -> dict[str, object]:
        """The values that a page expects."""
        return {
            "doing": self.doing,
            "sign": self.sign,
            "sentence": self.sentence,
            "done": self.done,
            "of": self.of,
            "head": self.head,
            "is_over": self.is_over,
        }


def under_way(brief: ConversationBrief, now: datetime, has_worker: Callable[[], bool]) -> WorkProgress:
    """The progress of the work on the memory in `brief`. `has_worker` is called only if a worker is waited for."""
    rebuild = current_progress(brief)
    is_wanted = brief.due or brief.requested != Requested.NOTHING
    if brief.lease_owner and brief.lease_expires_at is not None and brief.lease_expires_at > now:
        doing, sentence = _at_work(rebuild)
    elif is_wanted and brief.delayed_until is not None and brief.delayed_until > now:
        wait = round((brief.delayed_until - now).total_seconds()) + 1
        doing, sentence = (
            "waiting",
            f"Rate-limited because of frequent changes; continues in {_seconds(wait)}.",
        )
    elif is_wanted and brief.attempts and brief.next_attempt_at is not None and brief.next_attempt_at > now:
        wait = round((brief.next_attempt_at - now).total_seconds()) + 1
        doing, sentence = "failed", f"The last attempt failed. The next one comes in {_seconds(wait)}."
    elif is_wanted:
        doing, sentence = "waiting", _waits(rebuild) if has_worker() else NO_WORKER
    else:
        doing, sentence = "paused" if brief.paused_at else "done", _rests(brief)
    has_begun = rebuild is not None and rebuild.of_seq is not None and doing not in ("done", "paused")
    return WorkProgress(
        doing=doing,
        sentence=sentence,
        done=rebuild.through_seq if rebuild is not None and has_begun else 0,
        of=rebuild.of_seq if rebuild is not None and has_begun else None,
        head=brief.head,
    )


def has_worker() -> bool:
    """Whether any worker has answered recently."""
    return alive.problem() is None


def _at_work(rebuild: RebuildProgress | None) -> tuple[Doing, str]:
    if rebuild is None:
        return "folding", "A worker is updating the memory."
    if rebuild.of_seq is None:
        return "rebuilding", "A worker is rebuilding the memory, starting from the first messages."
    return "rebuilding", f"A worker is rebuilding the memory: {_how_far(rebuild)}."


def _waits(rebuild: RebuildProgress | None) -> str:
    if rebuild is not None and rebuild.of_seq is not None:
        return f"Waiting for a worker to continue the rebuild: {_how_far(rebuild)}."
    return "Waiting for a worker."


def _rests(brief: ConversationBrief) -> str:
    if not brief.head:
        return "Updates are paused." if brief.paused_at else "Up to date. No summary yet."
    if brief.paused_at:
        left = f"{brief.unfolded_turns:,} turn{'' if brief.unfolded_turns == 1 else 's'} not summarized"
        return f"Updates are paused: version {brief.head} stays as it is, with {left}."
    later = " It will be rebuilt once the model responds again." if brief.degraded else ""
    return f"Up to date: version {brief.head} is in use.{later}"


def _how_far(rebuild: RebuildProgress) -> str:
    return f"messages 1–{rebuild.through_seq:,} of {rebuild.of_seq or 0:,}"


def _seconds(count: int) -> str:
    return f"{count} seconds" if count < 120 else f"{round(count / 60)} minutes"
