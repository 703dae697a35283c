"""How pages show what is the same everywhere: times, in the zone of whoever looks."""

from __future__ import annotations

from datetime import UTC, datetime

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()


@register.filter
def viewer_time(moment: datetime | None) -> SafeString | str:
    """A `<time>`, which `chatmemory/times.js` shows in the viewer's own zone; without scripts it stays UTC."""
    if moment is None:
        return "–"
    moment = moment.astimezone(UTC)
    return format_html(
        '<time class="cm-time" datetime="{}">{}</time>',
        moment.isoformat(timespec="milliseconds"),
        moment.strftime("%Y-%m-%d %H:%M:%S UTC"),
    )
