"""Small pieces of HTML for admin pages. All text is escaped; what people said is shown as text, never rendered."""

from __future__ import annotations

import json
from typing import Any

from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString


def as_text(text: str) -> SafeString:
    """A block that shows `text` as it is, line breaks included."""
    return format_html('<pre class="cm-text" dir="auto">{}</pre>', text)


def as_json(value: Any) -> SafeString:
    """A block that shows a JSON value, indented."""
    return as_text(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True))


def admin_url(model: str, page: str, *args: Any, **query: Any) -> str:
    """The address of an admin page: `model` is `app_model`, `page` is `changelist` or `change`."""
    url = reverse(f"admin:{model}_{page}", args=args)
    return f"{url}?{urlencode(query)}" if query else url


def link(text: Any, model: str, page: str, *args: Any, **query: Any) -> SafeString:
    """A link to an admin page."""
    return format_html('<a href="{}">{}</a>', admin_url(model, page, *args, **query), text)


def chat_rows(text: Any, model: str, chat_id: Any, path: str = "chat", **query: Any) -> SafeString:
    """A link to the list of `model`, narrowed to one chat."""
    return link(text, model, "changelist", **{f"{path}__id__exact": chat_id}, **query)
