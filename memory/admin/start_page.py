"""The start page of the admin: what needs attention, pending work, two charts; and the lists of figures by day.

It is for users who may view memory; others get the admin's index. It has only numbers. Each count uses an index and
reads at most `MAX_COUNTED` rows.
"""

from datetime import timedelta
from typing import Any, ClassVar, NamedTuple

from django.contrib import admin
from django.db.models import Count, Max, Min, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.views.decorators.http import require_safe
from django_q.conf import Conf
from django_q.models import OrmQ

from chatmemory.templatetags.viewing import relative_time
from conversations.admin.access import COST, ReadOnlyAdmin, sees_cost
from conversations.admin.html import admin_url, column
from conversations.models import ActiveReply
from conversations.retention import due
from conversations.webhooks import outbox
from conversations.webhooks.models import WebhookState
from memory import queue
from memory.admin.charts import card_trouble, charts_of, sentences
from memory.admin.filters import MEMORY, STATES, waiting
from memory.models import ContextRecord, FoldDay, UsageDay, Worker
from memory.policies import policy_name
from memory.status import CONDITIONS
from memory.usage import daily
from memory.usage.figures import short
from memory.worker import alive, sweep

PERMISSION = "memory.view_conversationbrief"
PERIOD = 30
"""The days that the charts show; the lists of daily figures have all."""
MAX_COUNTED = 1000
"""The most rows counted of anything; if there are more, the count is shown as "1,000 or more"."""
TROUBLES = ("failing", "degraded")
"""The states of memory that need attention."""


class StatusRow(NamedTuple):
    """Label, value, the URL of its list or "", and whether it needs attention."""

    label: str
    value: Any
    url: str = ""
    is_bad: bool = False


@require_safe
def start(request: HttpRequest) -> HttpResponse:
    """The start page, for users who may see it; otherwise the admin's index."""
    if not request.user.has_perm(PERMISSION):
        return admin.site.index(request)
    shown = [daily.today() - timedelta(days=back) for back in range(PERIOD - 1, -1, -1)]
    usage = list(UsageDay.objects.filter(day__gte=shown[0]).values())
    folds = list(FoldDay.objects.filter(day__gte=shown[0]).values())
    facts = [("Pending updates", _pending()), ("Worker", _worker(request)), ("Retention", _retention())]
    facts += [("Webhooks", rows)] if (rows := _webhooks()) else []
    attention = [fact for _, rows in facts for fact in rows if fact.is_bad]
    if trouble := card_trouble(usage):
        attention.append(StatusRow("Replies without usable notes", trouble))
    context = {
        **admin.site.each_context(request),
        "title": "Overview",
        "attention": attention,
        "facts": facts,
        "period": PERIOD,
        "is_empty": not usage and not folds,
        "sentences": sentences(usage, folds, with_cost=sees_cost(request)),
        "charts": charts_of(shown, usage, folds),
    }
    return TemplateResponse(request, "admin/memory/start.html", context)


def _pending() -> list[StatusRow]:
    """The number of chats in each state of work, each linked to its list. One query."""
    each = {name: Count("pk", filter=CONDITIONS[name]) for name in STATES}
    found = waiting()[: MAX_COUNTED + 1].aggregate(all=Count("pk"), **each)
    more = " or more" if found["all"] > MAX_COUNTED else ""
    return [
        StatusRow(
            label,
            f"{min(found[name], MAX_COUNTED):,}{more}",
            admin_url("conversations_chat", "changelist", **{MEMORY: name}) if found[name] else "",
            bool(found[name]) and name in TROUBLES,
        )
        for name, label in STATES.items()
    ]


def _worker(request: HttpRequest) -> list[StatusRow]:
    problem, late = alive.problem(), sweep.problem()
    seen = Worker.objects.aggregate(at=Max("seen_at"))["at"]
    # A task's lock is the time from which it may be taken: until a worker takes it, when it was queued.
    tasks = OrmQ.objects.filter(key=Conf.CLUSTER_NAME, lock__lte=Now())
    oldest = tasks.aggregate(at=Min("lock"))["at"]
    writing = _counted(ActiveReply.objects.order_by("pk"))
    may_list = writing != "0" and request.user.has_perm("conversations.view_activereply")
    url = admin_url("conversations_activereply", "changelist") if may_list else ""
    return [
        StatusRow("Worker online", problem or "yes", is_bad=bool(problem)),
        StatusRow("Last sign of it", "never" if seen is None else relative_time(seen)),
        StatusRow("Sweep", late or "on schedule", is_bad=bool(late)),
        StatusRow("Tasks in the queue", f"{queue.waiting_tasks():,}"),
        StatusRow("Oldest task", relative_time(oldest)),
        StatusRow("Replies being written", writing, url),
        StatusRow("Replies not counted yet", _counted(ContextRecord.objects.filter(is_counted=False))),
    ]


def _retention() -> list[StatusRow]:
    """How many chats the next sweeps will erase."""
    waiting = sum(chats[:MAX_COUNTED].count() for _, chats in due.due_chats())
    more = " or more" if waiting >= MAX_COUNTED else ""
    return [StatusRow("Chats to be erased now", f"{waiting:,}{more}")]


def _webhooks() -> list[StatusRow]:
    """Webhook events that wait or were given up; nothing where there are none."""
    waiting, given_up = outbox.counts()
    if not (waiting or given_up):
        return []
    url = admin_url("conversations_webhookevent", "changelist", state__exact="")
    return [
        StatusRow("Events waiting", f"{waiting:,}", f"{url}{WebhookState.WAITING}"),
        StatusRow("Events given up in 7 days", f"{given_up:,}", f"{url}given+up", bool(given_up)),
    ]


def _counted(rows: QuerySet[Any]) -> str:
    count = rows[: MAX_COUNTED + 1].count()
    return f"{MAX_COUNTED:,} or more" if count > MAX_COUNTED else f"{count:,}"


INPUT = column("input tokens", lambda row: short(row.input_tokens))
OUTPUT = column("output tokens", lambda row: short(row.output_tokens))


class DayAdmin(ReadOnlyAdmin):
    """A list of figures of days or months, for users who may see the start page."""

    list_display_links = None
    ordering: ClassVar[tuple[str, ...]] = ("-day", "-pk")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm(PERMISSION))


@admin.register(UsageDay)
class UsageDayAdmin(DayAdmin):
    list_display = (
        *("day", "model_variant", "replies", "failed", INPUT),
        column("cached", lambda row: f"{row.cached_tokens / row.input_tokens:.0%}" if row.input_tokens else "–"),
        OUTPUT,
        # Tokens that the provider billed for each that we counted, of the same prompts.
        column(
            "billed ÷ counted",
            lambda row: f"{row.counted_billed / row.counted_tokens:.2f}" if row.counted_tokens else "–",
        ),
        COST,
    )


@admin.register(FoldDay)
class FoldDayAdmin(DayAdmin):
    list_display = (
        *("day", "kind", column("policy", lambda row: policy_name(row.policy)), "folds", "turns"),
        *("degraded", "failures", INPUT, OUTPUT, COST),
    )
