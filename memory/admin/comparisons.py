"""Comparing policies on one chat: the page that starts it, the page of each comparison, and its plot.

Who may see a chat and its memory may see what was measured on it; who may have it resummarized may have it compared.
The work is the service's. A comparison holds numbers, and its pages no title: nothing of what people said.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from chatmemory.templatetags.viewing import viewer_time
from conversations.admin.access import OfChatAdmin, Page
from conversations.admin.html import admin_url, link, moment
from conversations.models import Chat
from memory.lab.comparison import ComparisonUnderWay, request_comparison
from memory.lab.runner import MOST_BUDGET, least_budget
from memory.lab.stored_chat import MOST_TURNS
from memory.models import Comparison, ConversationBrief
from memory.policies import POLICIES

REFRESH_SECONDS = 2
"""How often the page of a comparison that is not over yet asks for itself."""

PLOT_CSP = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""A drawing needs its own styles and nothing else, also where it is opened by itself."""

_CHAT_COLUMNS = ("chat__instructions", "chat__metadata", "chat__options")


def _holds_a_summary(budget: int) -> None:
    if budget < least_budget():
        raise forms.ValidationError(f"It must be at least {least_budget()}, more than a summary may have.")


class CompareForm(forms.Form):
    """Which policies, and how much memory a prompt may have."""

    policies = forms.MultipleChoiceField(
        widget=forms.CheckboxSelectMultiple,
        choices=lambda: [(name, name) for name in POLICIES],
        initial=lambda: list(POLICIES),
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
    """Comparisons that were asked for. Their chat's own page starts one more."""

    list_display = (
        "short",
        "in_chat",
        "title",
        "owner",
        "state",
        "turns",
        "requested_by",
        moment("created_at"),
    )
    list_select_related = ("chat__owner", "requested_by")
    list_defer = ("progress", "result", "plot", *_CHAT_COLUMNS)
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
            ("<uuid:comparison_id>/plot.svg", self.plot_view, "plot"),
        ]
        urls = [
            path(route, self.admin_site.admin_view(view), name=f"memory_comparison_{name}")
            for route, view, name in own
        ]
        return [*urls, *super().get_urls()]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Comparison]:
        rows: QuerySet[Comparison] = super().get_queryset(request)
        return rows.select_related("chat__owner", "requested_by").defer("plot", *_CHAT_COLUMNS)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return []  # the page is a template of its own

    def page(self, row: Comparison, name: str) -> Page:
        context = {
            "title": f"Policies compared on chat {row.chat_id}",
            "subtitle": None,
            "comparison": row,
            "facts": _facts(row),
            "sheets": _sheets(row),
            "progress": [(policy, row.progress.get(policy, 0)) for policy in row.policies],
            "refresh": REFRESH_SECONDS,
        }
        return Page({}, context)

    def compare_view(self, request: HttpRequest, chat_id: UUID) -> HttpResponse:
        """The page of one chat: what was compared, and a form for one more."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        chat = get_object_or_404(Chat.objects.defer("instructions", "metadata"), pk=chat_id)
        form = CompareForm(request.POST if request.method == "POST" else None)
        if request.method == "POST":
            if not self.has_compare_permission(request):
                raise PermissionDenied
            if form.is_valid():
                return self._start(request, chat, form.cleaned_data)
        return TemplateResponse(
            request, "admin/memory/comparison/compare.html", self._page(request, chat, form)
        )

    def plot_view(self, request: HttpRequest, comparison_id: UUID) -> HttpResponse:
        """The plot of one comparison."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        found = Comparison.objects.filter(pk=comparison_id).exclude(plot="").values_list("plot", flat=True)
        plot = found.first()
        if plot is None:
            raise Http404("There is no plot of this comparison.")
        headers = {"Content-Security-Policy": PLOT_CSP}
        return HttpResponse(plot, content_type="image/svg+xml", headers=headers)

    def _start(self, request: HttpRequest, chat: Chat, chosen: dict[str, Any]) -> HttpResponse:
        assert isinstance(request.user, User)  # the admin lets nobody else in
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
        earlier = self.get_queryset(request).filter(chat=chat).order_by("-pk")
        return {
            **self.admin_site.each_context(request),
            "title": f"Compare policies on chat {chat.pk}",
            "opts": self.opts,
            "media": self.media,
            "chat": chat,
            "form": form,
            "may_compare": self.has_compare_permission(request),
            "earlier": earlier.defer("progress", "result", "plot", *_CHAT_COLUMNS),
            "default_budget": settings.MEMORY_LIMITS.prompt_budget,
            "least_budget": least_budget(),
            "most_turns": MOST_TURNS,
        }


def _seconds(comparison: Comparison) -> str:
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
    budget = "that of the settings" if comparison.budget is None else f"{comparison.budget:,} tokens"
    return [
        (
            "What",
            [
                ("Chat", link(chat.pk, "conversations_chat", "change", chat.pk)),
                ("Owner", chat.owner),
                ("Its policy", chat.policy),
                ("Turns", turns if comparison.turns else "–"),
                ("Budget", budget),
            ],
        ),
        (
            "When",
            [
                ("State", comparison.get_state_display()),
                ("Requested by", comparison.requested_by or "–"),
                *(
                    ("Requested", viewer_time(comparison.created_at)),
                    ("Began", viewer_time(comparison.started_at)),
                ),
                ("Took", _seconds(comparison)),
            ],
        ),
    ]
