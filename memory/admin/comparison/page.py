"""Comparing policies on one chat: the page that starts a comparison, and the page of each comparison.

Users who may see a chat and its memory may see what was measured on it; users who may resummarize it may also have it
compared. `memory.lab.comparison` does the work. A comparison contains only numbers: of what people wrote, its pages
show only the chat's title.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.formats import date_format

from chatmemory.templatetags.viewing import viewer_time
from conversations.admin.access import OfChatAdmin, Page, may_see
from conversations.admin.audit_log import record
from conversations.admin.html import Step, admin_url, chat_trail, heading, link, since
from conversations.models import Chat
from memory.admin.comparison.chart import HEIGHT, WIDTH, plot_of
from memory.admin.comparison.verdict import at_a_glance, verdict
from memory.admin.states import policy_name
from memory.lab.comparison.break_even import Growth
from memory.lab.comparison.compare import (
    CHANGED,
    ComparisonUnderWay,
    NotToContinue,
    continue_comparison,
    request_comparison,
)
from memory.lab.comparison.read_chat import MOST_TURNS
from memory.lab.runner import MOST_BUDGET, least_budget
from memory.models import Comparing, Comparison, ConversationBrief
from memory.policies import POLICIES

COMPARED_FIRST = ("chunked", "hierarchical")
"""The policies with which a chat's own is compared by default; the first that differs from it is taken."""

REFRESH_SECONDS = 2
"""How often the page of an unfinished comparison is reloaded."""

_CHAT_COLUMNS = ("chat__instructions", "chat__metadata", "chat__options")


def _holds_a_summary(budget: int) -> None:
    if budget < least_budget():
        raise forms.ValidationError(f"It must be at least {least_budget()}, more than a summary may have.")


def chosen_at_first(policy: str) -> list[str]:
    """The default choice: the chat's policy, and one other."""
    return [policy, next(one for one in COMPARED_FIRST if one != policy)]


class CompareForm(forms.Form):
    """The policies to compare, and how much memory a prompt may have."""

    policies = forms.MultipleChoiceField(
        widget=forms.CheckboxSelectMultiple,
        choices=lambda: [(name, policy.label) for name, policy in POLICIES.items()],
        error_messages={"required": "Choose at least one."},
    )
    budget = forms.IntegerField(
        required=False,
        max_value=MOST_BUDGET,
        validators=[_holds_a_summary],
        label="Tokens of memory in a prompt",
    )


@admin.register(Comparison)
class ComparisonAdmin(OfChatAdmin):
    """Requested comparisons. A new one is started from its chat's own page."""

    list_display = (
        *("called", "short", "policies_named", "state", "turns", "requested_by"),
        since("created_at"),
    )
    list_select_related = ("chat__owner", "requested_by")
    list_display_links = ("short",)
    list_defer = ("progress", "result", "played", *_CHAT_COLUMNS)
    chat_ordering = ("chat", "-id")
    chat_filters = ("state",)
    change_form_template = "admin/memory/comparison/change_form.html"

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        sites = [self.admin_site.get_model_admin(model) for model in (Chat, ConversationBrief)]
        return all(site.has_view_permission(request) for site in sites)

    def has_compare_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request) and request.user.has_perm("memory.change_conversationbrief")

    def get_urls(self) -> list[URLPattern]:
        own: list[tuple[str, Callable[..., HttpResponse], str]] = [
            ("of/<uuid:chat_id>/", self.compare_view, "compare"),
            ("<uuid:comparison_id>/continue/", self.continue_view, "continue"),
        ]
        urls = [
            path(route, self.admin_site.admin_view(view), name=f"memory_comparison_{name}")
            for route, view, name in own
        ]
        return [*urls, *super().get_urls()]

    def steps(self, row: Comparison) -> list[Step]:
        """Breadcrumbs: a comparison belongs to those of its chat."""
        url = admin_url("memory_comparison", "change", row.pk)
        return [
            ("Comparisons", admin_url("memory_comparison", "compare", row.chat_id)),
            (f"{date_format(row.created_at, 'j M Y')}", url),
        ]

    @admin.display(description="policies")
    def policies_named(self, comparison: Comparison) -> str:
        return ", ".join(comparison.policies)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Comparison]:
        rows: QuerySet[Comparison] = super().get_queryset(request)
        return rows.select_related("chat__owner", "requested_by").defer("played", *_CHAT_COLUMNS)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return []  # the page is a template of its own

    def page(self, row: Comparison, name: str) -> Page:
        told = row.result or {}
        growth = Growth.from_json(told["growth"]) if told.get("growth") else None
        context = {
            "title": f"Policies compared on {name}",
            "subtitle": None,
            "comparison": row,
            "facts": _facts(row),
            "sheets": _sheets(row),
            "verdict": verdict(growth) if growth else "",
            "glance": at_a_glance(growth) if growth else [],
            "unit": growth.unit if growth else "",
            "plot": plot_of(growth) if growth else None,
            "plot_size": (WIDTH, HEIGHT),
            "parts": parts_of(row),
            "failed": told.get("failed", {}),
            "can_continue": row.state == Comparing.FAILED and row.error != CHANGED,
            "refresh": REFRESH_SECONDS,
        }
        return Page({"title": row.chat.title}, context)

    def page_for(self, request: HttpRequest, row: Comparison, name: str) -> Page:
        """The page, with a button to continue the comparison for those who may."""
        page = self.page(row, name)
        may = self.has_compare_permission(request)
        return Page(page.texts, {**page.context, "may_compare": may}, page.content)

    def compare_view(self, request: HttpRequest, chat_id: UUID) -> HttpResponse:
        """The page of one chat: its comparisons, and a form to start another."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        chat = get_object_or_404(Chat.objects.defer("instructions", "metadata"), pk=chat_id)
        at_first = {"policies": chosen_at_first(chat.policy)}
        form = CompareForm(request.POST if request.method == "POST" else None, initial=at_first)
        if request.method == "POST":
            if not self.has_compare_permission(request):
                raise PermissionDenied
            if form.is_valid():
                return self._start(request, chat, form.cleaned_data)
        return TemplateResponse(
            request, "admin/memory/comparison/compare.html", self._page(request, chat, form)
        )

    def continue_view(self, request: HttpRequest, comparison_id: UUID) -> HttpResponse:
        """Play the policies that are missing."""
        if not self.has_compare_permission(request):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        found = get_object_or_404(self.get_queryset(request).defer("result"), pk=comparison_id)
        going = found.pk
        try:
            continue_comparison(found.pk)
        except ComparisonUnderWay as exc:
            self.message_user(request, f"{exc} Here it is.", messages.WARNING)
            going = exc.comparison_id
        except NotToContinue:
            self.message_user(request, "There is nothing to continue.", messages.WARNING)
        else:
            self.log_change(request, found, "Continued.")
        return redirect(admin_url("memory_comparison", "change", going))

    def _start(self, request: HttpRequest, chat: Chat, chosen: dict[str, Any]) -> HttpResponse:
        assert isinstance(request.user, User)  # the admin admits only users
        try:
            started = request_comparison(chat.pk, chosen["policies"], chosen["budget"], request.user).pk
        except ComparisonUnderWay as exc:
            self.message_user(request, f"{exc} Here it is.", messages.WARNING)
            started = exc.comparison_id
        except Chat.DoesNotExist:
            raise Http404("There is no such chat.") from None
        else:
            self.log_change(request, chat, "Requested: a comparison of policies.")
        return redirect(admin_url("memory_comparison", "change", started))

    def _page(self, request: HttpRequest, chat: Chat, form: CompareForm) -> dict[str, Any]:
        if may_see(request) and chat.title:
            record(request, self.own_name, [(chat, chat.pk)])
        earlier = self.get_queryset(request).filter(chat=chat).order_by("-pk")
        return {
            **self.admin_site.each_context(request),
            "title": f"Compare policies on {heading(chat, may_see(request))}",
            "trail": chat_trail(chat, may_see(request), ("Comparisons", "")),
            "opts": self.opts,
            "media": self.media,
            "chat": chat,
            "form": form,
            "may_compare": self.has_compare_permission(request),
            "earlier": earlier.defer("progress", "result", "played", *_CHAT_COLUMNS),
            "default_budget": settings.MEMORY_LIMITS.prompt_budget,
            "least_budget": least_budget(),
            "most_turns": MOST_TURNS,
        }


def state_of(comparison: Comparison) -> str:
    """The state in words, such as `Running, 3 of 5 policies done`."""
    state = str(comparison.get_state_display())
    if comparison.state == Comparing.DONE:
        return state
    done = sum(part.kind == "done" for part in parts_of(comparison))
    return f"{state}, {done} of {len(comparison.policies)} policies done"


class Part(NamedTuple):
    """The progress of one policy: turns done, and in words; `kind` is done, failed, running or waiting."""

    policy: str
    done: int
    kind: str
    told: str


def parts_of(comparison: Comparison) -> list[Part]:
    """The progress of each policy, in the order in which they are played."""
    told = comparison.result or {}
    failed = told.get("failed", {})
    # In comparisons that were stored as one task for all policies, all were played together.
    played = _played(told["growth"]) if "growth" in told else set(comparison.policies if told else ())
    left = [one for one in comparison.policies if one not in played and one not in failed]
    running = left[:1] if comparison.state == Comparing.RUNNING else []
    return [_part(comparison, one, played, failed, running) for one in comparison.policies]


def _played(growth: Mapping[str, Any] | None) -> set[str]:
    return {way["name"] for way in growth["ways"]} if growth else set()


def _part(
    comparison: Comparison,
    policy: str,
    played: Collection[str],
    failed: Mapping[str, str],
    running: Collection[str],
) -> Part:
    done = comparison.progress.get(policy, 0)
    so_far = f"{done:,} of {comparison.turns:,} turns" if comparison.turns else ""
    if policy in played:
        return Part(policy, done, "done", "done")
    if policy in failed:
        return Part(policy, done, "failed", f"failed after {so_far}" if so_far else "failed")
    if policy in running:
        return Part(policy, done, "running", so_far if done else "starting")
    return Part(policy, done, "waiting", "not played" if comparison.is_over else "waiting")


def _seconds(comparison: Comparison) -> str:
    """The time that the policies took in total, without waiting in between."""
    told = (comparison.result or {}).get("seconds")
    if told is not None:
        return f"{sum(told.values()):.0f} seconds"
    if comparison.started_at is None or comparison.finished_at is None:
        return "–"
    return f"{(comparison.finished_at - comparison.started_at).total_seconds():.0f} seconds"


def _sheets(comparison: Comparison) -> list[dict[str, Any]]:
    """The tables of the result, each cell with whether it is a number."""
    sheets = comparison.result["sheets"] if comparison.result else []
    return [{**sheet, "rows": [_cells(sheet, row) for row in sheet["rows"]]} for sheet in sheets]


def _cells(sheet: dict[str, Any], row: list[str]) -> list[tuple[str, bool]]:
    return [(cell, column["is_number"]) for cell, column in zip(row, sheet["columns"], strict=True)]


def _facts(comparison: Comparison) -> list[tuple[str, list[tuple[str, Any]]]]:
    """The columns of the page's head: headings, and names with values."""
    chat = comparison.chat
    turns = f"{comparison.turns:,}"
    if comparison.turns < comparison.of_turns:
        turns = f"the newest {comparison.turns:,} of {comparison.of_turns:,}"
    budget = "from the settings" if comparison.budget is None else f"{comparison.budget:,} tokens"
    return [
        (
            "Comparison",
            [
                ("Chat", link(chat.pk, "conversations_chat", "change", chat.pk)),
                ("Owner", chat.owner),
                ("Policy of the chat", policy_name(chat.policy)),
                ("Turns", turns if comparison.turns else "–"),
                ("Budget", budget),
            ],
        ),
        (
            "When",
            [
                ("State", state_of(comparison)),
                ("Requested by", comparison.requested_by or "–"),
                *(
                    ("Requested", viewer_time(comparison.created_at)),
                    ("Finished", viewer_time(comparison.finished_at)),
                ),
                ("Took", _seconds(comparison)),
            ],
        ),
    ]
