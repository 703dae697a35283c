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

from chatmemory.templatetags.viewing import relative_time, viewer_time
from conversations.models import Chat
from memory.usage.figures import usd

TITLE_CHARS = 48
UNTITLED = "Untitled chat"

Step = tuple[str, str]
"""A breadcrumb: its label and its URL, which is "" for the current page."""


def as_text(text: str) -> SafeString | str:
    """A block that shows `text` as it is, line breaks included; a dash if it is empty."""
    if not text:
        return "–"
    return format_html('<pre class="cm-text" dir="auto">{}</pre>', text)


def as_json(value: Any) -> SafeString | str:
    """A block that shows a JSON value, indented; a dash if it is empty."""
    return as_text(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) if value else "")


def heading(chat: Chat, may_see: bool = True) -> str:
    """A chat's name in a heading: its title, cut to fit beside the page's buttons, or its id if titles are hidden."""
    if not may_see:
        return f"Chat {str(chat.pk)[:8]}…{str(chat.pk)[-6:]}"
    return Truncator(chat.title).chars(TITLE_CHARS) if chat.title else UNTITLED


def usd_of(amount: Any) -> str:
    """A cost, or a dash if it is not known."""
    return "–" if amount is None else usd(amount)


def chat_trail(chat: Chat, *steps: Step) -> list[Step]:
    """Breadcrumbs of a page of a chat: `steps` follow the chat, which is the current page if there are none."""
    return [
        ("Home", reverse("admin:index")),
        ("Chats", admin_url("conversations_chat", "changelist")),
        (heading(chat), admin_url("conversations_chat", "change", chat.pk) if steps else ""),
        *steps,
    ]


def admin_url(model: str, page: str, *args: Any, **query: Any) -> str:
    """The URL of an admin page: `model` is `app_model`, `page` is `changelist` or `change`."""
    url = reverse(f"admin:{model}_{page}", args=args)
    return f"{url}?{urlencode(query)}" if query else url


def link(text: Any, model: str, page: str, *args: Any, **query: Any) -> SafeString:
    """A link to an admin page."""
    return format_html('<a href="{}">{}</a>', admin_url(model, page, *args, **query), text)


def message_link(message_id: Any) -> SafeString | str:
    """A link to the page of a message with its id as text; a dash if there is none."""
    return link(message_id, "conversations_message", "change", message_id) if message_id else "–"


def moment(name: str) -> Any:
    """A field that shows the row's time of that name in the viewer's time zone.

    Returns a function of the row. It is untyped, because the stubs do not know that fields can be functions too.
    """

    @admin.display(description=name.removesuffix("_at").replace("_", " "))
    def shown(row: Any) -> SafeString | str:
        return viewer_time(getattr(row, name))

    shown.__name__ = name
    return shown


def since(name: str, description: str = "") -> Any:
    """A column that shows how long ago the row's time of that name was."""

    @admin.display(description=description or name.removesuffix("_at").replace("_", " "))
    def shown(row: Any) -> SafeString | str:
        return relative_time(getattr(row, name))

    shown.__name__ = name
    return shown
