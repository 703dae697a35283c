"""Values made from a message's text and stored with it: tokens, search terms and outline, and its turn's line."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.conf import settings

from chatmemory.text.thoughts import visible_text
from chatmemory.text.tokens import count_tokens
from chatmemory.text.turn_line import make_line, outline
from conversations.models import Message, Role
from memory.history.turns import StoredMessage, to_turns
from memory.recall.terms import stored_terms


def derived_columns(text: str, role: str, owner_id: int) -> dict[str, Any]:
    """Return the columns of a message that are made from its text. This takes time for a long one.

    They leave out a reply's thoughts, as memory does wherever it reads one.
    """
    text = visible_text(text, role)
    return {
        "token_count": count_tokens(text),
        "terms": stored_terms(text, owner_id),
        "outline": outline(text) if role == Role.ASSISTANT else "",
    }


def turn_line(question: str, answer: str, *, cut_off: bool) -> str:
    """Return the line of a turn with these texts."""
    return make_line(question, visible_text(answer), settings.MEMORY_LINE_TOKENS, cut_off=cut_off)


def set_lines(rows: Sequence[Message]) -> list[Message]:
    """Set the line of each turn, on the last reply that counts, or else on its last message; clear all others.

    `rows` are whole turns. Return the changed rows; nothing is stored.
    """
    lines: dict[UUID, str] = {}
    for turn in to_turns([StoredMessage.of(row) for row in rows]):
        if turn.message_ids:
            line = turn_line(turn.user, turn.answer, cut_off=turn.cut_off)
            lines[turn.last_assistant_id or turn.message_ids[-1]] = line
    changed = [row for row in rows if row.line != lines.get(row.pk, "")]
    for row in changed:
        row.line = lines.get(row.pk, "")
    return changed
