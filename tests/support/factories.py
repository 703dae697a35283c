"""Rows for tests, made as the services make them: counted, with lines, seqs in order, and reported to memory."""

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client as Browser
from django.utils import timezone

from chatmemory.text.tokens import count_tokens
from chatmemory.text.turn_line import make_line, outline
from conversations.models import Chat, Message, Role, Status
from memory.changes import messages_changed
from memory.models import ConversationBrief
from memory.recall.terms import stored_terms

CUT_OFF = (Status.INCOMPLETE, Status.CANCELLED)


def make_user(name: str = "alice", **fields: Any) -> User:
    """Return the user of that name, created if necessary."""
    return User.objects.get_or_create(username=name, defaults=fields)[0]


def make_chat(user: User | None = None, **fields: Any) -> Chat:
    """Create an empty chat and its brief."""
    chat = Chat.objects.create(owner=user or make_user(), **({"policy": settings.MEMORY_POLICY} | fields))
    ConversationBrief.objects.create(chat=chat, policy=chat.policy)
    return chat


def add_turn(
    chat: Chat, user_text: str, assistant_text: str | None, status: str = Status.COMPLETE, **fields: Any
) -> Message:
    """Store a finished turn as `finish` does and return the reply. Without a reply (None): an imported question.

    `fields` are set on the reply.
    """
    with transaction.atomic():
        chat.refresh_from_db(fields=["last_seq"])
        question, reply = _rows(chat, chat.last_seq + 1, user_text, assistant_text, status, fields)
        chat.last_seq += 1 if reply is None else 2
        Chat.objects.filter(pk=chat.pk).update(last_seq=chat.last_seq)
        question.save(force_insert=True)
        if reply is not None:
            reply.save(force_insert=True)
            return reply
        messages_changed(chat.key, from_seq=question.seq)
        return question


def add_turns(chat: Chat, texts: Iterable[tuple[str, str | None]]) -> None:
    """Store many turns at once, as an import does."""
    rows: list[Message] = []
    with transaction.atomic():
        chat.refresh_from_db(fields=["last_seq"])
        first = seq = chat.last_seq + 1
        for user_text, assistant_text in texts:
            turn = [row for row in _rows(chat, seq, user_text, assistant_text, Status.COMPLETE, {}) if row]
            rows += turn
            seq += len(turn)
        chat.last_seq = seq - 1
        Chat.objects.filter(pk=chat.pk).update(last_seq=chat.last_seq)
        Message.objects.bulk_create(rows, batch_size=500)
        messages_changed(chat.key, from_seq=first)


def brief_of(chat: Chat | str) -> ConversationBrief:
    """Return the chat's brief as it is stored now."""
    return ConversationBrief.objects.get(chat_id=getattr(chat, "pk", chat))


def _rows(
    chat: Chat, seq: int, user_text: str, assistant_text: str | None, status: str, fields: dict[str, Any]
) -> tuple[Message, Message | None]:
    now = timezone.now()
    question = Message(
        chat=chat,
        seq=seq,
        role=Role.USER,
        content=user_text,
        status=Status.COMPLETE,
        token_count=count_tokens(user_text),
        line=_line(user_text, "") if assistant_text is None else "",
        terms=stored_terms(user_text, chat.owner_id),
        created_at=now,
        completed_at=now,
    )
    if assistant_text is None:
        return question, None
    said = assistant_text if status != Status.FAILED else ""
    reply = Message(
        chat=chat,
        seq=seq + 1,
        role=Role.ASSISTANT,
        content=assistant_text,
        status=status,
        token_count=count_tokens(assistant_text),
        reply_to=question,
        outline=outline(assistant_text),
        line=_line(user_text, said, cut_off=status in CUT_OFF and bool(said)),
        terms=stored_terms(assistant_text, chat.owner_id),
        created_at=now,
        completed_at=now,
    )
    for name, value in fields.items():
        setattr(reply, name, value)
    return question, reply


def _line(user_text: str, assistant_text: str, *, cut_off: bool = False) -> str:
    return make_line(user_text, assistant_text, settings.MEMORY_LINE_TOKENS, cut_off=cut_off)


def session_of(user: User) -> dict[str, str]:
    """Return a user's session cookie, as a browser sends it."""
    browser = Browser()
    browser.force_login(user)
    return {"sessionid": browser.cookies["sessionid"].value}
