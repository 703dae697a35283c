"""The state of a chat's memory in a word, with a sign that can be told without colour. For lists."""

from __future__ import annotations

from django.utils.html import format_html
from django.utils.safestring import SafeString

from memory.models import ConversationBrief


def health_of(brief: ConversationBrief | None) -> SafeString:
    """What matters most of it."""
    if brief is not None and brief.attempts:
        return chip("bad", f"failing, attempt {brief.attempts}")
    if brief is not None and brief.degraded:
        return chip("bad", "degraded")
    if brief is not None and (brief.due or brief.requested):
        return chip("busy", "due" if brief.due else brief.get_requested_display().lower())
    return chip("good", "up to date")


def chip(kind: str, text: str) -> SafeString:
    """A state: `good`, `busy` or `bad`, and what it is."""
    return format_html('<span class="cm-state cm-state-{}">{}</span>', kind, text)
