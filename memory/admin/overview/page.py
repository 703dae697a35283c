"""The overview: how the work on memory stands now, and what the last days were like. Numbers alone, nobody's text.

Who may see briefs may see it; money only with the permission to see cost.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from conversations.admin.access import sees_cost
from conversations.admin.html import admin_url
from memory.admin.overview import workload
from memory.admin.overview.charts import charts_of
from memory.admin.overview.totals import lines_of, totals_of
from memory.admin.states import PARAMETER, STATES
from memory.models import FoldDay, UsageDay
from memory.usage import daily
from memory.usage.figures import ago, days_until, short, usd

PERMISSION = "memory.view_conversationbrief"
PERIODS = (7, 30, 90)
"""Days that can be chosen."""
DEFAULT_PERIOD = 30


class OverviewRow(NamedTuple):
    """What it is, how much, "" or the class of what is not as it should be, and "" or where that is listed."""

    label: str
    value: Any
    kind: str = ""
    url: str = ""


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """The page, of the last `days` days."""
    if not request.user.has_perm(PERMISSION):
        raise PermissionDenied
    period, cost = _period(request), sees_cost(request)
    days = days_until(daily.today(), period)
    usage = list(UsageDay.objects.filter(day__gte=days[0]).values())
    folds = list(FoldDay.objects.filter(day__gte=days[0]).values())
    now = workload.standing()
    context = {
        **admin.site.each_context(request),
        "title": "Overview",
        "now": now,
        "facts": _facts(now, request),
        "failing": workload.failing() if now.chats["failing"] else [],
        "period": period,
        "periods": PERIODS,
        "is_empty": not usage and not folds,
        "tiles": _tiles(totals_of(usage, folds), cost=cost),
        "charts": charts_of(days, usage, folds, cost=cost),
        "lines": lines_of(usage, folds),
        "sees_cost": cost,
    }
    return TemplateResponse(request, "admin/memory/overview.html", context)


def _period(request: HttpRequest) -> int:
    told = request.GET.get("days", "")
    return int(told) if told in map(str, PERIODS) else DEFAULT_PERIOD


def _facts(now: workload.Workload, request: HttpRequest) -> list[tuple[str, list[OverviewRow]]]:
    """The columns at the head of the page."""
    writing = _listed(now.being_written, "conversations_activereply") if _sees_replies(request) else ""
    return [
        ("Pending updates", [_chats(name, count) for name, count in now.chats.items()]),
        (
            "Worker status",
            [
                *_worker(now),
                *_queue(now),
                OverviewRow("Replies being written", now.being_written, url=writing),
                OverviewRow("Replies not yet counted", now.uncounted),
            ],
        ),
    ]


def _chats(name: str, count: workload.Count) -> OverviewRow:
    """So many chats, and the way to them."""
    state = STATES[name]
    kind = "cm-bad" if state.is_trouble and count else ""
    return OverviewRow(
        state.label, count, kind, _listed(count, "memory_conversationbrief", **{PARAMETER: name})
    )


def _listed(count: workload.Count, model: str, **query: str) -> str:
    """Where they are listed, if there are any."""
    return admin_url(model, "changelist", **query) if count else ""


def _sees_replies(request: HttpRequest) -> bool:
    return bool(request.user.has_perm("conversations.view_activereply"))


def _worker(now: workload.Workload) -> list[OverviewRow]:
    alive = "never" if now.worker_alive_at is None else _ago(now.worker_alive_at)
    late = now.next_sweep_at is not None and (timezone.now() - now.next_sweep_at).total_seconds() > 120
    swept = ("overdue" if late else "none yet") if now.swept_at is None else _ago(now.swept_at)
    return [
        OverviewRow("Worker online", now.worker_problem or "yes", "cm-bad" if now.worker_problem else ""),
        OverviewRow("Last heartbeat", alive),
        OverviewRow("Last sweep", swept, "cm-bad" if late else ""),
    ]


def _queue(now: workload.Workload) -> list[OverviewRow]:
    if now.queued is None:
        return [OverviewRow("Tasks in the queue", "the queue is not responding", "cm-bad")]
    tasks = OverviewRow("Tasks in the queue", f"{now.queued:,}")
    oldest = "–" if now.oldest_queued_at is None else f"waiting for {_since(now.oldest_queued_at)}"
    if settings.Q_BROKER != "orm":
        oldest = "not available with Redis"
    return [tasks, OverviewRow("Oldest task", oldest)]


def _tiles(totals: Any, *, cost: bool) -> list[tuple[str, str, str]]:
    """The sums of the period: name, figure, and a sentence about it."""
    failed = f"{totals.failed:,} of them failed." if totals.failed else "None of them failed."
    less = totals.times_less
    saved = "The length of these chats is not known."
    if less:
        saved = f"Sending whole chats would have taken {less:,.1f} times as many tokens."
    if not totals.replies:
        failed = saved = "No reply yet."
    tiles = [
        ("Replies", f"{totals.replies:,}", failed),
        ("Tokens", short(totals.tokens), "Sent and received, including summarizer calls."),
    ]
    if cost:
        unpriced = (
            f"{totals.unpriced:,} replies have no known price."
            if totals.unpriced
            else "As billed by the provider."
        )
        tiles.append(("Cost", usd(totals.cost_usd), unpriced))
    if cost:
        saved = f"Or {usd(totals.saved_usd)}. {saved}"
    tiles.append(("Saved by memory", f"{short(totals.saved_tokens)} tokens", saved))
    share = "–" if totals.kept_share is None else f"{totals.kept_share:.0%}"
    took = "–" if totals.fold_seconds is None else f"{totals.fold_seconds:.1f} s"
    told = f"{took} each; {share} of names, numbers and dates kept. "
    told += f"{totals.failures:,} failed attempts, {totals.degraded:,} by the built-in summarizer."
    return [*tiles, ("Folds", f"{totals.folds:,}", told)]


def _since(moment: Any) -> str:
    return ago((timezone.now() - moment).total_seconds())


def _ago(moment: Any) -> str:
    return f"{_since(moment)} ago"
