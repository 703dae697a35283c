"""The start page of the admin: what needs attention, how much work is pending, and figures of the last days.

It is for users who may view briefs; others get the admin's index. Cost is shown only with the permission to see it.
The page contains only numbers, except the titles of chats, which are shown to users who may read them, and recorded.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from conversations.admin.access import may_see, sees_cost
from conversations.admin.audit_log import record_list
from conversations.admin.html import admin_url, heading
from conversations.models import Chat
from memory.admin.overview import workload
from memory.admin.overview.charts import charts_of
from memory.admin.overview.sentences import MOST_BAD, cards_sentence, kept_sentence, net, too_many_bad
from memory.admin.overview.totals import Totals, lines_of, totals_of
from memory.admin.states import PARAMETER, STATES, brief_of, health_of
from memory.models import FoldDay, UsageDay
from memory.policies import policy_name
from memory.usage import daily
from memory.usage.figures import ago, days_until, short, usd

PERMISSION = "memory.view_conversationbrief"
PERIODS = (7, 30, 90)
"""The periods that can be chosen, in days."""
DEFAULT_PERIOD = 30


RECENT = 8
"""The number of chats that the page lists."""


class RecentChat(NamedTuple):
    """A chat, its name, the name of its policy, and a label for its memory's state."""

    chat: Chat
    name: str
    policy: str
    health: SafeString


class OverviewRow(NamedTuple):
    """Label, value, the class of a value that needs attention or "", and the URL of its list or ""."""

    label: str
    value: Any
    kind: str = ""
    url: str = ""


@require_safe
def start(request: HttpRequest) -> HttpResponse:
    """The overview, for users who may see it; otherwise the admin's index."""
    return overview(request) if request.user.has_perm(PERMISSION) else admin.site.index(request)


def overview(request: HttpRequest) -> HttpResponse:
    """The page, of the last `days` days."""
    period, cost = _period(request), sees_cost(request)
    days = days_until(daily.today(), period)
    usage = list(UsageDay.objects.filter(day__gte=days[0]).values())
    folds = list(FoldDay.objects.filter(day__gte=days[0]).values())
    now = workload.current_workload()
    facts, totals = _facts(now, request), totals_of(usage, folds)
    context = {
        **admin.site.each_context(request),
        "title": "Overview",
        "now": now,
        "facts": facts,
        "attention": [row for _, rows in facts for row in rows if row.kind] + _bad_cards(totals),
        "failing": _failing(request) if now.chats["failing"] else [],
        "recent": _recent(request) if request.user.has_perm("conversations.view_chat") else [],
        "period": period,
        "periods": PERIODS,
        "is_empty": not usage and not folds,
        "net": net(totals, cost=cost, is_priced=settings.SUMMARIZER.price is not None),
        "tiles": _tiles(totals, cost=cost),
        "charts": charts_of(days, usage, folds, cost=cost),
        "lines": lines_of(usage, folds),
        "sees_cost": cost,
    }
    return TemplateResponse(request, "admin/memory/overview.html", context)


def _failing(request: HttpRequest) -> list[tuple[workload.Failing, str]]:
    """Failing chats, with their names."""
    failing, may = workload.failing(), may_see(request)
    chats = Chat.objects.only("title", "owner").in_bulk([one.chat_id for one in failing])
    if may:
        titled = [chat for chat in chats.values() if chat.title]
        record_list(request, "memory_conversationbrief", titled)
    return [(one, heading(chats[one.chat_id], may)) for one in failing if one.chat_id in chats]


def _recent(request: HttpRequest) -> list[RecentChat]:
    """The most recently changed chats, with their names."""
    briefs = (f"brief__{name}" for name in ("global_summary", "state", "options"))
    chats = Chat.objects.select_related("owner", "brief").defer(
        "instructions", "metadata", "options", *briefs
    )
    newest, may = list(chats.order_by("-updated_at", "-pk")[:RECENT]), may_see(request)
    if may:
        record_list(request, "conversations_chat", [chat for chat in newest if chat.title])
    return [
        RecentChat(chat, heading(chat, may), policy_name(chat.policy), health_of(brief_of(chat)))
        for chat in newest
    ]


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
    """A number of chats, with a link to their list."""
    state = STATES[name]
    kind = "cm-bad" if state.is_trouble and count else ""
    return OverviewRow(
        state.label, count, kind, _listed(count, "memory_conversationbrief", **{PARAMETER: name})
    )


def _listed(count: workload.Count, model: str, **query: str) -> str:
    """The URL of their list, if there are any."""
    return admin_url(model, "changelist", **query) if count else ""


def _sees_replies(request: HttpRequest) -> bool:
    return bool(request.user.has_perm("conversations.view_activereply"))


def _worker(now: workload.Workload) -> list[OverviewRow]:
    alive = "never" if now.worker_alive_at is None else _ago(now.worker_alive_at)
    late = now.next_sweep_at is not None and (timezone.now() - now.next_sweep_at).total_seconds() > 120
    return [
        OverviewRow("Worker online", now.worker_problem or "yes", "cm-bad" if now.worker_problem else ""),
        OverviewRow("Last heartbeat", alive),
        OverviewRow("Sweep", "overdue" if late else "on schedule", "cm-bad" if late else ""),
    ]


def _queue(now: workload.Workload) -> list[OverviewRow]:
    tasks = OverviewRow("Tasks in the queue", f"{now.queued:,}")
    oldest = "–" if now.oldest_queued_at is None else f"waiting for {_since(now.oldest_queued_at)}"
    return [tasks, OverviewRow("Oldest task", oldest)]


def _tiles(totals: Totals, *, cost: bool) -> list[tuple[str, str, str]]:
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
    if totals.cards:
        share = totals.cards_kept / totals.cards
        tiles.append(("Replies with a good card", f"{share:.1%}", cards_sentence(totals)))
    return [*tiles, ("Summary updates", f"{totals.folds:,}", _folds_told(totals))]


def _folds_told(totals: Totals) -> str:
    kept = kept_sentence(totals.kept_share, is_recalled=settings.MEMORY_LIMITS.recalls)
    took = "" if totals.fold_seconds is None else f"{totals.fold_seconds:.1f} s each. "
    counts = f"{totals.failures:,} failed attempts, {totals.degraded:,} by the built-in summarizer."
    return f"{took}{kept} {counts}".strip()


def _bad_cards(totals: Totals) -> list[OverviewRow]:
    """The warning if too few replies have a usable card."""
    if not too_many_bad(totals) or totals.bad_cards is None:
        return []
    told = f"{totals.bad_cards:.1%} of these days, over the {MOST_BAD:.0%} that are tolerable"
    return [OverviewRow("Replies without a usable memory card", told, "cm-bad")]


def _since(moment: Any) -> str:
    return ago((timezone.now() - moment).total_seconds())


def _ago(moment: Any) -> str:
    return f"{_since(moment)} ago"
