"""Which staff may read what people said, and what is shown to the others instead.

Content is anything that people typed or a model made from it: messages, titles, instructions, metadata, options,
keys, memory, errors that may quote. Ids, usernames, counts, models, costs and times are not content. Staff who may
see a page without its content get the length of each text and a hash that shows whether two texts of one chat are the
same. The hash is keyed per chat, so that a short text cannot be found by guessing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.utils import lookup_field, unquote
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.crypto import salted_hmac
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chatmemory.templatetags.viewing import copied_id, short_id
from conversations.admin.audit_log import SEARCH, record, record_list
from conversations.admin.html import Step, admin_url, chat_trail, heading, link
from conversations.admin.readonly import CHATS_SEARCHED, ReadOnlyAdmin
from conversations.models import Chat

PERMISSION = "conversations.view_content"
COST_PERMISSION = "memory.view_cost"


@dataclass(frozen=True, slots=True)
class Page:
    """The page of a row: its texts by name, and template context for all staff and for those who may read content."""

    texts: Mapping[str, Any]
    context: Mapping[str, Any] = field(default_factory=dict)
    content: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Withheld:
    """What is shown in place of a text that the viewer may not read."""

    name: str
    characters: int
    hash: str


def may_see(request: HttpRequest) -> bool:
    """Whether the requesting user may read content."""
    return bool(request.user.has_perm(PERMISSION))


def sees_cost(request: HttpRequest) -> bool:
    """Whether the requesting user may see what chats and their memory cost in money."""
    return bool(request.user.has_perm(COST_PERMISSION))


def withheld(chat: Chat, texts: Mapping[str, str]) -> list[Withheld]:
    """Return the texts as they are shown to those who may not read them."""
    salt = f"chatmemory.content.{chat.pk}"
    return [
        Withheld(name, len(text), salted_hmac(salt, text, algorithm="sha256").hexdigest()[:16])
        for name, text in texts.items()
    ]


class ContentAdmin(ReadOnlyAdmin):
    """Read-only rows with content. Subclasses name the columns and fields with content, and define a row's page."""

    content_columns: ClassVar[tuple[str, ...]] = ()
    """Columns that show content, in addition to `called`."""
    content_fields: ClassVar[tuple[str, ...]] = ()
    change_form_template = "admin/conversations/content.html"
    search_help_text = "Search by id, chat id or owner; with permission to read content, also by title."

    def page(self, row: Any, name: str) -> Page:
        """Return what the row's own page shows. `name` is the heading of its chat."""
        raise NotImplementedError(f"{type(self).__name__}.page")

    def page_for(self, request: HttpRequest, row: Any, name: str) -> Page:
        """Return the same for a page that depends on the request, such as its parameters or its user."""
        return self.page(row, name)

    def steps(self, row: Any) -> list[Step]:
        """Return the breadcrumbs from the row's chat to its own page; none if the row is the chat."""
        return []

    def breadcrumbs(self, request: HttpRequest, row: Any, *more: Step) -> list[Step]:
        """Return the breadcrumbs to the row's page, or with `more` to a page below it."""
        found = chat_trail(self.chat_of(row), may_see(request), *self.steps(row), *more)
        return [*found[:-1], (found[-1][0], "")]

    def chat_of(self, row: Any) -> Chat:
        """Return the chat of a row, which is selected along with it."""
        chat: Chat = row.chat
        return chat

    @property
    def own_name(self) -> str:
        """The page's name in the audit log, `app_model`."""
        return f"{self.opts.app_label}_{self.opts.model_name}"

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        columns = super().get_list_display(request)
        if may_see(request):
            return list(columns)
        shown = [one for one in columns if one not in self.content_columns]
        return ["in_chat" if one == "called" else one for one in shown]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)
        if may_see(request):
            return fieldsets
        kept = [
            (name, [one for one in options["fields"] if one not in self.content_fields])
            for name, options in fieldsets
        ]
        return [(name, {"fields": fields}) for name, fields in kept if fields]

    def render_change_form(
        self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        row = kwargs["obj"]
        chat, may = self.chat_of(row), may_see(request)
        page = self.page_for(request, row, heading(chat, may))
        texts = {name: _as_text(value) for name, value in page.texts.items() if value}
        if may and texts:
            record(request, self.own_name, [(chat, row.pk)])
        context |= {**page.context, **(page.content if may else {})}
        context |= {"may_see": may, "withheld": [] if may else withheld(chat, texts)}
        context |= {"trail": self.breadcrumbs(request, row), "row_id": row.pk}
        return super().render_change_form(request, context, *args, **kwargs)

    def render_delete_form(self, request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        """Render with the same heading for the row as on its page."""
        row = context["object"]
        way = self.breadcrumbs(request, row, ("Delete", ""))
        if may_see(request) and self.chat_of(row).title:
            record(request, self.own_name, [(self.chat_of(row), row.pk)])
        return super().render_delete_form(request, context | {"trail": way, "object": way[-2][0]})

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        row = self.get_object(request, unquote(object_id))
        if row is None or not self.has_view_permission(request, row):
            return super().history_view(request, object_id, extra_context)
        extra = {"trail": self.breadcrumbs(request, row, ("Staff actions", "")), "title": "Staff actions"}
        if may_see(request) and self.chat_of(row).title:
            record(request, self.own_name, [(self.chat_of(row), row.pk)])
        return super().history_view(request, object_id, {**(extra_context or {}), **extra})

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        response = super().changelist_view(request, extra_context)
        if isinstance(response, TemplateResponse) and may_see(request):
            changelist = (response.context_data or {}).get("cl")
            rows = changelist.result_list if changelist is not None else []
            record_list(
                request, self.own_name, [self.chat_of(row) for row in rows if self._shows_content(row)]
            )
        return response

    def _shows_content(self, row: Any) -> bool:
        """Whether a row of a list shows content in one of its columns."""
        columns = set(self.content_columns) & set(self.list_display)
        has_title = "called" in self.list_display and bool(self.chat_of(row).title)
        return has_title or any(lookup_field(column, row, self)[2] for column in columns)

    @admin.display(description="chat")
    def called(self, row: Any) -> SafeString:
        """The chat's title as a link to the chat, and its id."""
        return self._named_link(row, "conversations_chat")

    @admin.display(description="chat")
    def in_chat(self, row: Any) -> SafeString:
        """The chat's id as a link, for those who may not read titles."""
        chat_id = self.chat_of(row).pk
        return link(short_id(chat_id), "conversations_chat", "change", chat_id)

    def _named_link(self, row: Any, model: str) -> SafeString:
        chat = self.chat_of(row)
        return format_html(
            '<a class="cm-name" dir="auto" href="{}">{}</a><small>{}</small>',
            admin_url(model, "change", chat.pk),
            heading(chat, may_see=True),
            copied_id(chat.pk),
        )

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


class OfChatAdmin(ContentAdmin):
    """Content of one chat, with columns that link to the chat."""

    @admin.display(description="chat")
    def chat_link(self, row: Any) -> SafeString:
        chat_id = self.chat_of(row).pk
        return link(chat_id, "conversations_chat", "change", chat_id)

    @admin.display(description="owner")
    def owner(self, row: Any) -> str:
        return str(self.chat_of(row).owner)


def without_fields(fieldsets: Any, hidden: tuple[str, ...]) -> list[tuple[Any, dict[str, Any]]]:
    """Return the fieldsets without the `hidden` fields."""
    return [
        (name, {**options, "fields": [one for one in options["fields"] if one not in hidden]})
        for name, options in fieldsets
    ]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
