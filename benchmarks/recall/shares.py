"""Which share of a prompt recall should have: whole prompts of folded chats, with questions about their facts.

The chats are imported and folded by the built-in model, under the default policy and numbers. At each share, a question
counts if its prompt has the value in a message's own words, a line or the summary.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchmarks.recall.sets import Chat

if TYPE_CHECKING:
    from conversations.models import Chat as Row

SHARES = (0.0, 0.1, 0.2, 0.33, 0.5, 0.7)
FORM = "slot and another fact"


def measure(chats: Sequence[Chat]) -> dict[str, float]:
    """Return, by recall share, the share of questions whose value is in the prompt."""
    from django.conf import settings

    usual = settings.MEMORY_RECALL_SHARE
    found = dict.fromkeys(SHARES, 0)
    asked = 0
    for chat in chats:
        row = _folded(chat)
        for one in chat.asked[FORM]:
            asked += 1
            for share in SHARES:
                settings.MEMORY_RECALL_SHARE = share
                found[share] += _is_there(row, one.question, one.values)
    settings.MEMORY_RECALL_SHARE = usual
    return {f"{share:g}": number / asked for share, number in found.items()}


def _folded(chat: Chat) -> Row:
    from django.contrib.auth.models import User

    from conversations.interchange.rows import import_chat
    from conversations.interchange.values import ImportedChat, ImportedMessage
    from memory.folding.fold import fold

    owner, _ = User.objects.get_or_create(username="recall")
    messages = tuple(ImportedMessage(one.role, one.text, created_at=one.at) for one in chat.messages)
    row = import_chat(owner, ImportedChat(messages=messages))
    while fold(row.key, until=time.monotonic() + 60).outcome == "more":
        pass
    row.refresh_from_db()
    return row


def _is_there(row: Row, question: str, values: Sequence[str]) -> bool:
    from memory.context.build import preview

    context = preview(row, question)
    memory = "\n".join(one.text for one in context.sections if one.kind != "question").lower()
    return any(value in memory for value in values)
