"""Replies that are stored by the plain ORM, not by `finish`."""

from typing import Any

import pytest
from django.utils import timezone

from conversations.models import Chat, Message, Role, Status
from memory.models import ConversationBrief
from tests.support.factories import brief_of, make_chat
from tests.support.fakes.scripted import KeepingModel
from tests.support.folds import run_fold


def save(chat: Chat, seq: int, content: str, tokens: int = 200) -> None:
    """Store a message as Django's documentation shows it: a question, or a reply if `seq` is even."""
    fields: dict[str, Any] = {
        "role": Role.ASSISTANT if seq % 2 == 0 else Role.USER,
        "status": Status.COMPLETE,
    }
    now = timezone.now()
    Message(chat=chat, seq=seq, content=content, token_count=tokens, created_at=now, **fields).save()


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_messages_saved_by_the_orm_are_counted_and_folded(model: KeepingModel) -> None:
    chat = make_chat()
    save(chat, 1, "Hello")
    save(chat, 2, "Hello")
    assert not brief_of(chat).due
    for seq in range(3, 43):
        save(chat, seq, "word " * 200)
    assert brief_of(chat).due
    assert run_fold(chat).published > 0
    assert not brief_of(chat).due
    assert brief_of(chat).folded_through_seq > 0


@pytest.mark.django_db
def test_reply_saved_by_the_orm_makes_the_memory_of_its_chat() -> None:
    chat = make_chat()
    ConversationBrief.objects.filter(chat=chat).delete()
    save(chat, 1, "Hello")
    save(chat, 2, "Hello")
    assert not brief_of(chat).due
