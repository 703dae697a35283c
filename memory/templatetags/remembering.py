"""How pages show memory, texts and JSON: template filters, which lists use as functions. All text is escaped, and shown
as text."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from memory.models import SummaryRevision
from memory.policies import policy_name
from memory.usage.figures import usd

register = template.Library()
register.filter("policy_label", policy_name)
register.filter("usd", usd)

KIND_LABELS = {
    "fold": "↧ updated",
    "rebuild": "⟳ rebuilt",
    "restore": "↶ restored",
    "manual": "✎ edited by hand",
    "retract": "✂ rolled back",
    "branch": "⑂ copied",
}


@register.filter
def kind_label(version: SummaryRevision) -> str:
    """The kind of change, as a word with a sign: a clearing differs from other edits by hand."""
    is_cleared = version.kind == "manual" and not version.tokens_after and not version.forgotten_at
    return "∅ cleared" if is_cleared else KIND_LABELS[version.kind]


@register.filter
def as_text(text: str) -> SafeString | str:
    """A block that shows `text` as it is, line breaks included; a dash if it is empty."""
    return format_html('<pre class="cm-text" dir="auto">{}</pre>', text) if text else "–"


@register.filter
def as_json(value: Any) -> SafeString | str:
    """A block that shows a JSON value, indented; a dash if it is empty."""
    return as_text(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) if value else "")


@register.filter
def as_sent(message: Mapping[str, Any]) -> str:
    """A message of a prompt as text; parts that are not text as JSON."""
    content = message["content"] or ""
    parts = [content] if isinstance(content, str) else [part.get("text") or _json(part) for part in content]
    return "\n".join(part for part in (*parts, *map(_json, message.get("tool_calls", ()))) if part)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


@register.filter
def marked(text: str, ranges: Sequence[tuple[int, int]]) -> SafeString:
    """`text` with these ranges marked."""
    parts, done = [], 0
    for start, end in ranges:
        parts.append((text[done:start], text[start:end]))
        done = end
    return format_html("{}{}", format_html_join("", "{}<mark>{}</mark>", parts), text[done:])
