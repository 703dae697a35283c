"""What pages say of memory, whichever page it is."""

from __future__ import annotations

from django import template
from django.utils import timezone

from memory.admin import progress
from memory.models import ConversationBrief

register = template.Library()


@register.filter
def under_way(brief: ConversationBrief) -> progress.WorkProgress:
    """What is going on with this memory now."""
    return progress.under_way(brief, timezone.now(), progress.has_worker)


@register.filter
def grouped(number: int | None) -> str:
    """A count with its thousands apart: 12,345."""
    return "–" if number is None else f"{number:,}"
