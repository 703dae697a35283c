"""Which staff may read what people said: rows with content, whose pages are only for them, and recorded.

Content is anything that people typed or a model made from it: messages, titles, instructions, metadata, options,
keys, memory, errors that may quote. Ids, usernames, counts, models, costs and times are not content: lists show these
to all staff who may view the rows, with ids in place of titles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chatmemory.templatetags.viewing import copied_id, short_id
from conversations.admin.audit_log import SEARCH, record, record_list
from conversations.admin.html import Step, admin_url, chat_trail, heading, link
from conversations.admin.readonly import CHATS_SEARCHED, ReadOnlyAdmin
from conversations.models import Chat

PERMISSION = "conversations.view_content"
COST_PERMISSION = "memory.view_cost"


def may_see(request: HttpRequest) -> bool:
    """Whether the requesting user may read content."""
    return bool(request.user.has_perm(PERMISSION))


def sees_cost(request: HttpRequest) -> bool:
    """Whether the requesting user may see what chats and their memory cost in money."""
    return bool(request.user.has_perm(COST_PERMISSION))


def refused(request: HttpRequest) -> HttpResponse:
    """The page in place of one with content, for staff who may not read it: one sentence that says why."""
    context = {**admin.site.each_context(request), "title": "Only for staff who may read chats"}
    return TemplateResponse(request, "admin/refused.html", context, status=403)


class ContentAdmin(ReadOnlyAdmin):
    """Rows with content, of one chat each, which is selected along with them."""

    content_columns: ClassVar[tuple[str, ...]] = ()
    """Columns that show content, in addition to `called`."""
    page_template = ""
    """The template of a row's page, which gets `page_context`; "" for Django's own with `fieldsets`."""
    search_help_text = "Search by id, chat id or owner; with permission to read content, also by title."

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return what the template of a row's page shows."""
        raise NotImplementedError(f"{type(self).__name__}.page_context")

    def steps(self, row: Any) -> list[Step]:
        """Return the breadcrumbs from the row's chat to its page; none if the row is the chat."""
        return [(str(row).capitalize(), "")]

    def chat_of(self, row: Any) -> Chat:
        """Return the chat of a row, which is selected along with it."""
        chat: Chat = row.chat
        return chat

    @property
    def own_name(self) -> str:
        """The page's name in the audit log, `app_model`."""
        return f"{self.opts.app_label}_{self.opts.model_name}"

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        if request.method not in ("GET", "HEAD") or not self.has_view_permission(request):
            raise PermissionDenied
        if not may_see(request):
            return refused(request)
        row = self.get_object(request, unquote(object_id))
        if row is None:
            return super().change_view(request, object_id, form_url, extra_context)
        if not self.page_template:
            self.record_page(request, row)
            trail = {"trail": chat_trail(self.chat_of(row), *self.steps(row))}
            return super().change_view(request, object_id, form_url, trail)
        return self.page(request, row, self.page_template, self.page_context(request, row), *self.steps(row))

    def page(
        self, request: HttpRequest, row: Any, template: str, context: dict[str, Any], *steps: Step
    ) -> HttpResponse:
        """Render a page of a row with a template of our own, and record that it was seen."""
        self.record_page(request, row)
        chat = self.chat_of(row)
        common = {
            **self.admin_site.each_context(request),
            "trail": chat_trail(chat, *steps),
            "opts": self.opts,
            "media": self.media,
            "chat": chat,
            "row_id": row.pk,
        }
        return TemplateResponse(request, template, {**common, **context})

    def record_page(self, request: HttpRequest, row: Any) -> None:
        """Record that the page of a row was seen."""
        record(request, self.own_name, [(self.chat_of(row), row.pk)])

    def record_rows(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        """Record that a list with these rows was seen."""
        record_list(request, self.own_name, [self.chat_of(row) for row in rows])

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not may_see(request):
            return refused(request)
        row = self.get_object(request, unquote(object_id))
        trail = {}
        if row is not None and self.has_view_permission(request):
            self.record_page(request, row)
            trail = {"trail": chat_trail(self.chat_of(row), *self.steps(row), ("Staff actions", ""))}
        return super().history_view(request, object_id, {"title": "Staff actions", **trail})

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        columns = list(super().get_list_display(request))
        if may_see(request):
            return columns
        return ["in_chat" if one == "called" else one for one in columns if one not in self.content_columns]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        response = super().changelist_view(request, extra_context)
        if isinstance(response, TemplateResponse) and may_see(request):
            changelist = (response.context_data or {}).get("cl")
            if changelist is not None:
                self.record_rows(request, list(changelist.result_list))
        return response

    @admin.display(description="chat")
    def called(self, row: Any) -> SafeString:
        """The chat's title as a link to the chat, and its id."""
        chat = self.chat_of(row)
        return format_html(
            '<a class="cm-name" dir="auto" href="{}">{}</a><small>{}</small>',
            admin_url("conversations_chat", "change", chat.pk),
            heading(chat),
            copied_id(chat.pk),
        )

    @admin.display(description="chat")
    def in_chat(self, row: Any) -> SafeString:
        """The chat's id, for those who may not read titles."""
        return short_id(self.chat_of(row).pk)

    @admin.display(description="chat")
    def chat_link(self, row: Any) -> SafeString:
        chat = self.chat_of(row)
        return link(heading(chat), "conversations_chat", "change", chat.pk)

    @admin.display(description="owner")
    def owner(self, row: Any) -> str:
        return str(self.chat_of(row).owner)

    def named(self, request: HttpRequest, term: str) -> Q:
        """Also find chats by part of the title, if the user may read titles. Hits are recorded: they reveal titles."""
        called = super().named(request, term)
        if not may_see(request):
            return called
        titled = list(
            Chat.objects.filter(title__icontains=term).order_by("-pk").only("owner")[:CHATS_SEARCHED]
        )
        record_list(request, self.own_name, titled, SEARCH)
        return called | Q(pk__in=[chat.pk for chat in titled])
