"""Filters that all pages use to show ids and times, the latter in the viewer's time zone."""

from datetime import UTC, datetime

from django import template
from django.conf import settings
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.timesince import timesince, timeuntil

register = template.Library()

_COPY = mark_safe(
    '<svg width="14" height="14" viewBox="0 0 24 24" aria-hidden="true"><path d="M9 9h11v11H9zM5 15H4V4h11v1"/></svg>'
)


@register.filter
def short_id(value: object) -> SafeString:
    """An id shortened to fit a column, with the whole id as its tooltip."""
    text = str(value)
    return format_html('<span class="cm-id" title="{}">{}…{}</span>', text, text[:8], text[-6:])


@register.filter
def copied_id(value: object) -> SafeString:
    """A short id with a button that copies the whole id."""
    return format_html(
        '{} <button type="button" class="cm-copy" data-copy="{}" title="Copy id" aria-label="Copy id {}">{}</button>',
        short_id(value),
        value,
        value,
        _COPY,
    )


@register.filter
def viewer_time(moment: datetime | None) -> SafeString | str:
    """A `<time>` element, which `chatmemory/times.js` shows in the viewer's time zone; without scripts it stays UTC."""
    if moment is None:
        return "–"
    moment = moment.astimezone(UTC)
    return format_html(
        '<time class="cm-time" datetime="{}">{}</time>',
        moment.isoformat(timespec="milliseconds"),
        moment.strftime("%Y-%m-%d %H:%M:%S UTC"),
    )


@register.filter
def relative_time(moment: datetime | None) -> SafeString | str:
    """How long ago, or in how long, in one unit, with the exact time as its tooltip."""
    if moment is None:
        return "–"
    moment, now = moment.astimezone(UTC), timezone.now()
    words = f"in {timeuntil(moment, now, depth=1)}" if moment > now else f"{timesince(moment, now, depth=1)} ago"
    return format_html(
        '<time class="cm-time cm-ago" datetime="{}" title="{}">{}</time>',
        moment.isoformat(timespec="milliseconds"),
        moment.strftime("%Y-%m-%d %H:%M:%S UTC"),
        "just now" if abs((now - moment).total_seconds()) < 60 else words,
    )


@register.simple_tag
def ways_in() -> dict[str, bool]:
    """By what one can sign in here, as the settings say."""
    return {"oidc": bool(settings.OIDC_ISSUER), "passwords": settings.LOCAL_PASSWORDS}
