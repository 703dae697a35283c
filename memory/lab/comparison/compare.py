"""Comparing policies on one stored chat: requested by staff, run in workers, stored as numbers.

A comparison costs nothing and sends nothing of what people said to a provider: the built-in model summarizes, in
child processes on scratch databases. Each policy is a task of its own: the comparison goes from waiting to running,
and back to waiting until all were played; then it is done, or failed if a policy could not be played. The results of
the other policies are kept, and it can be continued. Each step is a conditional UPDATE, so that a task which is lost,
late or repeated does no harm. One policy runs at a time, because it occupies, for up to a minute and a half, a worker
that others need for folding.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, QuerySet
from django.db.models.functions import Now

from conversations.models import Chat
from memory import queue
from memory.lab import runner
from memory.lab.billing import chained
from memory.lab.comparison.break_even import growth_of
from memory.lab.comparison.read_chat import stored_talk
from memory.lab.conversation import Conversation
from memory.lab.measures import Run
from memory.lab.outcome import Models, Outcome
from memory.lab.runner import ChildFailed, LabError
from memory.lab.tables import as_json, note_on, sheets_of
from memory.models import Comparing, Comparison

logger = logging.getLogger(__name__)

MOST_SECONDS = 90.0
"""Time limit for one policy. With reading and storing, a task stays below the queue's own `timeout`."""
GIVEN_UP_AFTER = timedelta(seconds=150)
"""After this long, the worker of a running comparison must be gone: the queue would have ended the task itself."""
KEPT = 20
"""The number of newest comparisons kept for a chat."""

OPEN = (Comparing.WAITING, Comparing.RUNNING)

OFFLINE_ENVIRONMENT = {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}
"""Settings of the child processes: without key and address, only the built-in model is available."""

NOTHING = "There is nothing to compare: nobody answers a question in this chat."
STOPPED = "The worker stopped."
CHANGED = "The chat was changed while it was being compared: start a new comparison."
TOO_LONG = f"took longer than {MOST_SECONDS:.0f} seconds"
NOT_RUN = "could not be run in the worker: its log tells why"
CHILD_FAILED = "could not be run: the command replay tells why"


class ComparisonUnderWay(Exception):
    """A comparison of this chat is waiting or running already: `comparison_id`."""

    def __init__(self, comparison_id: UUID) -> None:
        super().__init__("A comparison of this chat is under way.")
        self.comparison_id = comparison_id


class NotToContinue(Exception):
    """The comparison has not failed, or its chat was changed in the meantime."""


class _Gone(Exception):
    """The comparison was given up, or deleted with its chat."""


@dataclass(frozen=True, slots=True)
class _Watch:
    """Counts the turns played so far, called by the runner's threads, and saves them now and then."""

    comparison_id: UUID
    until: float
    done: dict[str, int]

    def tell(self, policy: str, turns: int) -> None:
        self.done[policy] += turns

    def beat(self) -> None:
        """Save the progress. Raises `_Gone`, or `LabError` when time is up."""
        if not _running(self.comparison_id).update(progress=self.done):
            raise _Gone
        if time.monotonic() > self.until:
            raise LabError(TOO_LONG)


def request_comparison(
    chat_id: UUID, policies: Sequence[str], budget: int | None, user: User | None = None
) -> Comparison:
    """Have a worker compare `policies` on a chat; `budget` in tokens, None for the setting's.

    Raises `ComparisonUnderWay` and `Chat.DoesNotExist`.
    """
    with transaction.atomic():
        chat = Chat.objects.select_for_update().only("pk").get(pk=chat_id)
        _given_up().filter(chat=chat).update(**_failure(STOPPED))
        if under_way := Comparison.objects.filter(chat=chat, state__in=OPEN).only("pk").first():
            raise ComparisonUnderWay(under_way.pk)
        _remove_oldest(chat)
        comparison = Comparison.objects.create(
            chat=chat, policies=list(policies), budget=budget, requested_by=user
        )
        task_id = queue.enqueue_comparison(comparison.pk)
    facts = {"chat": str(chat_id), "comparison": str(comparison.pk), "task": task_id}
    logger.info("comparison requested", extra={**facts, "user": user.pk if user else None})
    return comparison


def continue_comparison(comparison_id: UUID) -> None:
    """Play the policies that failed or were not reached; the results of the others are kept.

    Raises `NotToContinue`, and `ComparisonUnderWay` if the chat has another open comparison.
    """
    with transaction.atomic():
        failed = Comparison.objects.filter(pk=comparison_id, state=Comparing.FAILED).exclude(error=CHANGED)
        comparison = failed.defer("played").first()
        if comparison is None:
            raise NotToContinue
        Chat.objects.select_for_update().only("pk").get(pk=comparison.chat_id)
        open_ones = Comparison.objects.filter(chat_id=comparison.chat_id, state__in=OPEN)
        if under_way := open_ones.only("pk").first():
            raise ComparisonUnderWay(under_way.pk)
        result = comparison.result and {**comparison.result, "failed": {}}
        fresh = {"state": Comparing.WAITING, "error": "", "finished_at": None, "result": result}
        if failed.update(**fresh):
            queue.enqueue_comparison(comparison.pk)
    logger.info("comparison continued", extra={"comparison": str(comparison_id)})


def compare(comparison_id: UUID) -> None:
    """Play the next policy of a comparison. Does nothing if it is no longer waiting, or another one is running."""
    comparison = _claim(comparison_id)
    if comparison is None:
        return
    facts = {"chat": str(comparison.chat_id), "comparison": str(comparison_id)}
    try:
        changes = _next_step(comparison)
        _running(comparison_id).update(**changes)
        logger.info("comparison went on", extra={**facts, "state": changes["state"]})
    except _Gone:
        logger.info("comparison dropped", extra=facts)
    _hint_next()


def give_up_stale() -> int:
    """Give up the comparisons of dead workers, and queue one that waits. Returns how many were given up."""
    given_up = _given_up().update(**_failure(STOPPED))
    if not Comparison.objects.filter(state=Comparing.RUNNING).exists():
        _hint_next()
    return given_up


def _claim(comparison_id: UUID) -> Comparison | None:
    """Make a waiting comparison the running one. None if it no longer waits, or if another one is running."""
    alive = Comparison.objects.filter(state=Comparing.RUNNING, started_at__gte=Now() - GIVEN_UP_AFTER)
    waiting = Comparison.objects.filter(~Exists(alive), pk=comparison_id, state=Comparing.WAITING)
    if not waiting.update(state=Comparing.RUNNING, started_at=Now()):
        return None
    return Comparison.objects.select_related("chat").filter(pk=comparison_id).first()


def _next_step(comparison: Comparison) -> dict[str, Any]:
    """Play one policy and return the changes to save."""
    try:
        talk = _talk(comparison)
    except LabError as exc:
        return _failure(str(exc))
    runs = {name: Run.from_json(data) for name, data in comparison.played.get("runs", {}).items()}
    told = comparison.result or {}
    failed, seconds = dict(told.get("failed", {})), dict(told.get("seconds", {}))
    policy = next((one for one in comparison.policies if one not in runs and one not in failed), None)
    if policy is not None:
        began = time.monotonic()
        run, why = _played(comparison, talk, policy)
        seconds[policy] = round(time.monotonic() - began, 1)
        if run is not None:
            runs[policy] = run
        else:
            failed[policy] = why
    ordered = {name: runs[name] for name in comparison.policies if name in runs}
    return _changes(comparison, talk, ordered, {"failed": failed, "seconds": seconds})


def _talk(comparison: Comparison) -> Conversation:
    """The chat as it was when the first policy was played. Raises `LabError` if it has changed since."""
    played = comparison.played
    if played:
        comparison.chat.last_seq = played["through"]
    talk, of_turns = stored_talk(comparison.chat)
    if not talk.exchanges:
        raise LabError(CHANGED if played else NOTHING)
    if not played:
        _running(comparison.pk).update(turns=len(talk.exchanges), of_turns=of_turns)
    elif played["said"] != _said(talk):
        raise LabError(CHANGED)
    return talk


def _said(talk: Conversation) -> list[int]:
    """Numbers that differ after all but the smallest edits: the tokens of each message, and of tools."""
    requests = chained(talk)
    return [*(one.input for one in requests), *(one.output for one in requests[-1:])]


def _played(comparison: Comparison, talk: Conversation, policy: str) -> tuple[Run | None, str]:
    """Return the run, or why there is none. Error messages of a child are not stored: they may quote the chat."""
    done = {**dict.fromkeys(comparison.policies, 0), **comparison.progress, policy: 0}
    watch = _Watch(comparison.pk, time.monotonic() + MOST_SECONDS, done)
    try:
        runs = runner.run(
            [talk],
            [policy],
            budget=comparison.budget,
            tell=watch.tell,
            on_tick=watch.beat,
            environment=OFFLINE_ENVIRONMENT,
        )
    except ChildFailed:
        return None, CHILD_FAILED
    except LabError as exc:
        return None, str(exc)
    except OSError as exc:
        logger.warning("comparison could not be run", extra={"error": exc.strerror})
        return None, NOT_RUN
    return runs[policy][0], ""


def _changes(
    comparison: Comparison, talk: Conversation, runs: dict[str, Run], told: dict[str, Any]
) -> dict[str, Any]:
    """Return the results so far, and the state that follows from them."""
    failed = told["failed"]
    played = {
        "through": comparison.chat.last_seq,
        "said": _said(talk),
        "runs": {name: run.to_json() for name, run in runs.items()},
    }
    changes: dict[str, Any] = {"played": played, "result": {**_measured(talk, runs), **told}}
    if len(runs) + len(failed) < len(comparison.policies):
        return {**changes, "state": Comparing.WAITING}
    if failed:
        return {**changes, **_failure(" ".join(f"{name} {why}." for name, why in failed.items()))}
    return {**changes, "state": Comparing.DONE, "finished_at": Now()}


def _measured(talk: Conversation, runs: dict[str, Run]) -> dict[str, Any]:
    """Tables, and the costs over turns: only numbers, and the names of policies and models."""
    if not runs:
        return {"sheets": [], "note": "", "growth": None}
    replies = settings.MODEL_VARIANTS[settings.DEFAULT_MODEL_VARIANT]
    models = Models(replies, settings.SUMMARIZER, is_offline=True)
    outcome = Outcome((talk,), {name: [run] for name, run in runs.items()}, models)
    return {
        "sheets": [as_json(sheet) for sheet in sheets_of(outcome)],
        "note": note_on(outcome),
        "growth": growth_of(talk, list(runs.values()), models).to_json(),
    }


def _running(comparison_id: UUID) -> QuerySet[Comparison]:
    return Comparison.objects.filter(pk=comparison_id, state=Comparing.RUNNING)


def _given_up() -> QuerySet[Comparison]:
    """Comparisons that are marked as running but cannot be."""
    return Comparison.objects.filter(state=Comparing.RUNNING, started_at__lt=Now() - GIVEN_UP_AFTER)


def _failure(sentence: str) -> dict[str, Any]:
    return {"state": Comparing.FAILED, "error": sentence[:300], "finished_at": Now()}


def _hint_next() -> None:
    """Queue the comparison that has waited longest."""
    waiting = Comparison.objects.filter(state=Comparing.WAITING).order_by("pk").only("pk").first()
    if waiting is not None:
        queue.enqueue_comparison(waiting.pk)


def _remove_oldest(chat: Chat) -> None:
    """Delete the oldest comparisons, to make room for one more."""
    old = Comparison.objects.filter(chat=chat).order_by("-pk").values_list("pk", flat=True)[KEPT - 1 :]
    Comparison.objects.filter(pk__in=list(old)).delete()
