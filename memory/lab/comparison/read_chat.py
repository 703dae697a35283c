"""A chat of this server as a talk to play: its messages, or only its newest turns if it is long.

The result equals what `replay` gets from the chat's export, except that the talk has no title, so that no text of
people is in a name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from conversations.interchange.from_rows import chat_values, message_values
from conversations.models import Chat, Message, Role, Status
from memory.lab.conversation import Conversation, talk_of

MOST_TURNS = 500
MOST_TOKENS = 500_000
"""The most tokens of messages: a talk is held in memory as a whole."""

NAME = "this chat"


def stored_talk(chat: Chat) -> tuple[Conversation, int]:
    """The newest turns of `chat` as a talk, and how many turns the whole chat has."""
    newest_first = Message.objects.filter(chat=chat, seq__lte=chat.last_seq).order_by("-seq")
    start = start_of(newest_first.values_list("seq", "role", "token_count").iterator(chunk_size=MOST_TURNS))
    recorded = replace(chat_values(chat), messages=tuple(message_values(chat, start)))
    talk = talk_of(recorded, NAME)
    return talk, len(talk.exchanges) + _questions_before(chat, start)


def start_of(newest_first: Iterable[tuple[int, str, int]]) -> int:
    """Seq of the question to begin with, given the seq, role and tokens of each message, newest first."""
    start = turns = tokens = 0
    for seq, role, count in newest_first:
        tokens += count
        if turns and tokens > MOST_TOKENS:
            return start
        if role == Role.USER:
            start, turns = seq, turns + 1
        if turns == MOST_TURNS:
            return start
    return 1


def _questions_before(chat: Chat, seq: int) -> int:
    questions = Message.objects.filter(chat=chat, role=Role.USER, seq__gt=0, seq__lt=seq)
    return questions.exclude(status=Status.DELETED).count() if seq > 1 else 0
