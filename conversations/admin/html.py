"""Small pieces of HTML for admin pages. All text is escaped; what people said is shown as text, never rendered."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from chatmemory.templatetags.viewing import viewer_time
from conversations.models import Chat


def as_text(text: str) -> SafeString:
    """A block that shows `text` as it is, line breaks included."""
    return format_html('<pre class="cm-text" dir="auto">{}</pre>', text)


def as_json(value: Any) -> SafeString:
    """A block that shows a JSON value, indented."""
    return as_text(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True))


def short_id(value: Any) -> SafeString:
    """An id that fits a column; the whole of it shows on hovering, and on the row's own page."""
    text = str(value)
    return format_html('<span class="cm-id" title="{}">{}…{}</span>', text, text[:8], text[-6:])


def heading(chat: Chat, may_see: bool) -> str:
    """A chat where it is part of a heading: its title, cut to what fits beside the page's buttons, or its id."""
    if not may_see:
        return f"chat {chat.pk}"
    return Truncator(chat.title).chars(48) if chat.title else "a chat without title"


def admin_url(model: str, page: str, *args: Any, **query: Any) -> str:
    """The address of an admin page: `model` is `app_model`, `page` is `changelist` or `change`."""
    url = reverse(f"admin:{model}_{page}", args=args)
    return f"{url}?{urlencode(query)}" if query else url


def moment(name: str) -> Any:
    """A column or field that shows the row's time of that name in the zone of whoever looks.

    A function of the row; untyped, because the stubs do not know that fields, too, can be one.
    """

    @admin.display(description=name.removesuffix("_at").replace("_", " "))
    def shown(row: Any) -> SafeString | str:
        return viewer_time(getattr(row, name))

    shown.__name__ = name
    return shown


def link(text: Any, model: str, page: str, *args: Any, **query: Any) -> SafeString:
    """A link to an admin page."""
    return format_html('<a href="{}">{}</a>', admin_url(model, page, *args, **query), text)


def chat_rows(text: Any, model: str, chat_id: Any, path: str = "chat", **query: Any) -> SafeString:
    """A link to the list of `model`, narrowed to one chat."""
    return link(text, model, "changelist", **{f"{path}__id__exact": chat_id}, **query)


def message_link(message_id: Any) -> SafeString | str:
    """A link to the page of a message, named by its id; a dash where there is none."""
    return link(message_id, "conversations_message", "change", message_id) if message_id else "–"
