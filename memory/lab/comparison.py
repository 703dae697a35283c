"""Comparing policies on one stored chat: asked for by staff, run in a worker, kept as numbers.

A comparison neither costs anything nor sends anywhere what people said: the built-in model summarizes, in child
processes on scratch databases. It goes from waiting over running to done or failed, each step a conditional UPDATE,
so that a task which is lost, late or repeated does no harm. One runs at a time, because it keeps a worker for a
minute that others need for folding.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, QuerySet
from django.db.models.functions import Now

from conversations.models import Chat
from memory import queue
from memory.lab import plots, runner
from memory.lab.outcome import Models, Outcome
from memory.lab.runner import ChildFailed, LabError
from memory.lab.stored_chat import stored_talk
from memory.lab.tables import as_json, note_on, sheets_of
from memory.models import Comparing, Comparison

logger = logging.getLogger(__name__)

MOST_SECONDS = 90.0
"""That the policies may take. With reading, drawing and storing it stays below the queue's own `timeout`."""
GIVEN_UP_AFTER = timedelta(seconds=150)
"""After this long, the worker of one that is running is gone: the queue would have ended it itself."""
KEPT = 20
"""Comparisons of a chat that are kept, the newest."""

OPEN = (Comparing.WAITING, Comparing.RUNNING)

NOT_SENT = {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": "", "PROMPT_ID_SUMMARY_GLOBAL": ""}
"""Settings of the children: with neither key nor address, the built-in model is all there is."""

NOTHING = "There is nothing to compare: nobody answers a question in this chat."
STOPPED = "The worker stopped."
TOO_LONG = f"It took longer than {MOST_SECONDS:.0f} seconds. Choose fewer policies, or use the command."
NOT_RUN = "The worker could not run it: its log tells why."


class ComparisonUnderWay(Exception):
    """A comparison of this chat is waiting or running already: `comparison_id`."""

    def __init__(self, comparison_id: UUID) -> None:
        super().__init__("A comparison of this chat is under way.")
        self.comparison_id = comparison_id


class _Gone(Exception):
    """The comparison was deleted with its chat, or given up."""


@dataclass(frozen=True, slots=True)
class _Watch:
    """Told of each turn by the runner's threads, each of which has a policy to itself; writes it down now and then."""

    comparison_id: UUID
    until: float
    done: dict[str, int]

    def tell(self, policy: str, turns: int) -> None:
        self.done[policy] += turns

    def beat(self) -> None:
        """Raises `_Gone`, or `LabError` when time is up."""
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


def compare(comparison_id: UUID) -> None:
    """Run a comparison. Nothing is done where it waits no more, or another one is running."""
    comparison = _claim(comparison_id)
    if comparison is None:
        return
    facts = {"chat": str(comparison.chat_id), "comparison": str(comparison_id)}
    try:
        changes = _ending(comparison)
        _running(comparison_id).update(**changes)
        logger.info("comparison ended", extra={**facts, "state": changes["state"]})
    except _Gone:
        logger.info("comparison dropped", extra=facts)
    _hint_next()


def heal() -> int:
    """Give up what a worker left behind, and hint the queue at what waits. Returns how many were given up."""
    given_up = _given_up().update(**_failure(STOPPED))
    if not Comparison.objects.filter(state=Comparing.RUNNING).exists():
        _hint_next()
    return given_up


def _claim(comparison_id: UUID) -> Comparison | None:
    """Make a waiting comparison the running one. None if it waits no more, or has to go on waiting."""
    alive = Comparison.objects.filter(state=Comparing.RUNNING, started_at__gte=Now() - GIVEN_UP_AFTER)
    waiting = Comparison.objects.filter(~Exists(alive), pk=comparison_id, state=Comparing.WAITING)
    if not waiting.update(state=Comparing.RUNNING, started_at=Now()):
        return None
    return Comparison.objects.select_related("chat").filter(pk=comparison_id).first()


def _ending(comparison: Comparison) -> dict[str, Any]:
    """Run it: the changes with which it ends. No sentence of a child is kept: it may quote the chat."""
    try:
        outcome = _outcome(comparison, time.monotonic() + MOST_SECONDS)
        return {"state": Comparing.DONE, "finished_at": Now(), **_measured(outcome)}
    except ChildFailed as exc:
        return _failure(f"The policy {exc.policy} could not be run. The command replay tells why.")
    except LabError as exc:
        return _failure(str(exc))
    except OSError as exc:
        logger.warning("comparison could not be run", extra={"error": exc.strerror})
        return _failure(NOT_RUN)


def _outcome(comparison: Comparison, until: float) -> Outcome:
    talk, of_turns = stored_talk(comparison.chat)
    if not talk.exchanges:
        raise LabError(NOTHING)
    watch = _Watch(comparison.pk, until, dict.fromkeys(comparison.policies, 0))
    _running(comparison.pk).update(turns=len(talk.exchanges), of_turns=of_turns)
    runs = runner.run(
        [talk],
        comparison.policies,
        budget=comparison.budget,
        tell=watch.tell,
        meanwhile=watch.beat,
        environment=NOT_SENT,
    )
    replies = settings.MODEL_VARIANTS[settings.DEFAULT_MODEL_VARIANT]
    return Outcome((talk,), runs, Models(replies, settings.SUMMARIZER, is_offline=True))


def _measured(outcome: Outcome) -> dict[str, Any]:
    """The tables and the plot: numbers, and the names of policies and models."""
    result = {"sheets": [as_json(sheet) for sheet in sheets_of(outcome)], "note": note_on(outcome)}
    plot = _plot(outcome)
    return {"result": {**result, "has_plot": bool(plot)}, "plot": plot}


def _plot(outcome: Outcome) -> str:
    """The plot as SVG, "" where the library for it is not installed. Drawn here: it would hold up a server."""
    with TemporaryDirectory(prefix="chatmemory-plot-") as folder:
        path = Path(folder) / "plot.svg"
        try:
            plots.draw(outcome, path)
        except plots.NoLibrary:
            return ""
        return path.read_text(encoding="utf-8")


def _running(comparison_id: UUID) -> QuerySet[Comparison]:
    return Comparison.objects.filter(pk=comparison_id, state=Comparing.RUNNING)


def _given_up() -> QuerySet[Comparison]:
    """Those that say they are running, and cannot be."""
    return Comparison.objects.filter(state=Comparing.RUNNING, started_at__lt=Now() - GIVEN_UP_AFTER)


def _failure(sentence: str) -> dict[str, Any]:
    return {"state": Comparing.FAILED, "error": sentence[:300], "finished_at": Now()}


def _hint_next() -> None:
    """Hint the queue at the one that waits longest."""
    waiting = Comparison.objects.filter(state=Comparing.WAITING).order_by("pk").only("pk").first()
    if waiting is not None:
        queue.enqueue_comparison(waiting.pk)


def _remove_oldest(chat: Chat) -> None:
    """Make room for one more."""
    old = Comparison.objects.filter(chat=chat).order_by("-pk").values_list("pk", flat=True)[KEPT - 1 :]
    Comparison.objects.filter(pk__in=list(old)).delete()
