"""Links and columns of admin pages. All text is escaped; what people said is shown as text, never rendered."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.text import Truncator, slugify

from chatmemory.templatetags.viewing import relative_time, viewer_time
from conversations.models import Chat

TITLE_CHARS = 48


def heading(chat: Chat, may_see: bool = True) -> str:
    """A chat's name in a heading: its title, cut to fit beside the page's buttons, or its id if titles are hidden."""
    if not may_see:
        return f"Chat {str(chat.pk)[:8]}…{str(chat.pk)[-6:]}"
    return (
        Truncator(chat.title).chars(TITLE_CHARS)
        if chat.title
        else "Temporary chat"
        if chat.temporary
        else "Untitled chat"
    )


def admin_url(model: str, page: str, *args: Any, **query: Any) -> str:
    """The URL of an admin page: `model` is `app_model`, `page` is `changelist` or `change`."""
    url = reverse(f"admin:{model}_{page}", args=args)
    return f"{url}?{urlencode(query)}" if query else url


def link(text: Any, model: str, page: str, *args: Any, **query: Any) -> SafeString:
    """A link to an admin page."""
    return format_html('<a href="{}">{}</a>', admin_url(model, page, *args, **query), text)


def column(description: str, value: Callable[[Any], Any]) -> Any:
    """A column of a list, or a read-only field of a page, that shows `value` of the row.

    It is a function of the row, and untyped, because the stubs do not know that fields can be functions too.
    """

    @admin.display(description=description)
    def shown(row: Any) -> Any:
        return value(row)

    shown.__name__ = slugify(description)  # the CSS class
    return shown


def moment(name: str, description: str = "", shown: Callable[[Any], Any] = viewer_time) -> Any:
    """A field that shows the row's time of that name in the viewer's time zone."""
    words = description or name.removesuffix("_at").replace("_", " ")
    return column(words, lambda row: shown(getattr(row, name)))


def since(name: str, description: str = "") -> Any:
    """A column that shows how long ago the row's time of that name was."""
    return moment(name, description, relative_time)
