"""The trace of a fact in a chat: who said it, which version of the summary lost it, whether a prompt would have it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from conversations.models import Chat
from memory.admin.messages import marked
from memory.explain.fact import WAYS
from memory.explain.trace import trace_fact

MOST_CHARS = 500
"""The longest text to trace, in characters: a fact is short."""
LOST_BY = {
    "fold": "an update",
    "rebuild": "a rebuild",
    "restore": "a restore",
    "manual": "an edit by hand",
    "retract": "a step back, because a message was edited or deleted",
    "branch": "copied from the chat that this one branched from",
}
"""What each kind of version is called if it lost the fact."""


def trace_view(request: HttpRequest, chat: Chat) -> dict[str, Any]:
    """What the page of `?text=MFRB94` shows."""
    text = request.GET.get("text", "").replace("\0", "").strip()[:MOST_CHARS]
    found = trace_fact(chat, text) if text else None
    page = {"title": "Trace a fact", "text": text, "trace": found}
    if found is None:
        return page
    return page | {
        "said": [(hit.message, marked(hit)) for hit in found.said.hits],
        "said_more": found.is_said_elsewhere,
        # Each run of versions that have it, and the version that lost it, with what kind of change that was.
        "spans": [
            (span, span.lost, LOST_BY[span.lost.kind] if span.lost else "") for span in found.versions.held
        ],
        "now": [WAYS[way] for way in found.now],
    }
