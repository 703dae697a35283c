"""Template filters for memory, shared by all pages."""

import json
from collections.abc import Mapping
from typing import Any

from django import template

from memory.policies import policy_name

register = template.Library()
register.filter("policy_label", policy_name)


@register.filter
def grouped(number: int | None) -> str:
    """A count with thousands separators: 12,345."""
    return "–" if number is None else f"{number:,}"


@register.filter
def as_sent(message: Mapping[str, Any]) -> str:
    """A message of a prompt as text; parts that are not text as JSON."""
    content = message["content"] or ""
    parts = [content] if isinstance(content, str) else [part.get("text") or _json(part) for part in content]
    return "\n".join(part for part in (*parts, *map(_json, message.get("tool_calls", ()))) if part)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)
