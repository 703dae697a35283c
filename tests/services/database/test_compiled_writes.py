"""Writes that are compiled once leave the same rows as the ORM, on the database of this run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import DataError, connection
from django.db.models import Model
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from benchmarks.chats import make_chat
from chatmemory.database.compiled_writes import Delete, Insert, Update
from chatmemory.database.ids import new_id
from conversations.models import ActiveReply, Chat, Message, Role, Status
from memory.models import ContextRecord, ConversationBrief

pytestmark = pytest.mark.django_db

AT = datetime(2026, 11, 23, 12, 30, 15, 123456, tzinfo=UTC)


@pytest.fixture
def chat() -> Chat:
    return make_chat(User.objects.create_user("alice"), 3)


def fields(instance: Model) -> dict[str, Any]:
    """All stored values of an instance except its primary key."""
    return {
        f.attname: getattr(instance, f.attname) for f in instance._meta.concrete_fields if not f.primary_key
    }


def reply(chat: Chat, **others: Any) -> Message:
    """An unsaved message with a value in every kind of column."""
    values: dict[str, Any] = {
        "role": Role.ASSISTANT,
        "status": Status.INCOMPLETE,
        "content": "Käse 😀 50 % 'quoted'",
        "reply_to": chat.messages.get(seq=5),
        "terms": None,
        "input_tokens": 12,
        "cost_usd": Decimal("0.000123456"),
        "error": {"code": "too_long", "message": "%s"},
        "metadata": {"a": [1, None, "é"]},
        "created_at": AT,
        "completed_at": AT + timedelta(seconds=1),
    }
    return Message(chat=chat, **{**values, **others})


def test_an_insert_is_that_of_the_orm(chat: Chat) -> None:
    insert = Insert(Message)
    bare: dict[str, Any] = {"metadata": {}, "error": None, "cost_usd": None, "reply_to": None}
    for others in ({}, bare):
        seq = chat.messages.count() + 1
        ours = insert.save(reply(chat, seq=seq, **others))
        stored = fields(Message.objects.get(pk=ours.pk))
        Message.objects.filter(pk=ours.pk).delete()
        theirs = reply(chat, seq=seq, **others)
        theirs.save(force_insert=True)
        assert stored == fields(Message.objects.get(pk=theirs.pk))


def test_an_inserted_row_can_be_saved(chat: Chat) -> None:
    made = Insert(Chat).save(Chat(owner=chat.owner, policy="chunked"))
    made.title = "another"
    made.save(update_fields=["title"])
    found = Chat.objects.get(pk=made.pk)
    assert (found.title, found.created_at) == ("another", made.created_at)


def test_what_the_database_computes_it_computes(chat: Chat) -> None:
    active = ActiveReply(
        chat=chat,
        message_id=new_id(),
        user_message=chat.messages.get(seq=5),
        owner="me",
        started_at=AT,
        context={},
    )
    Insert(ActiveReply, lease_expires_at=Now() + timedelta(seconds=15)).save(active)
    ours = ActiveReply.objects.filter(
        lease_expires_at__gt=Now() + timedelta(seconds=5), lease_expires_at__lt=Now() + timedelta(seconds=16)
    )
    assert ours.get().owner == "me"


def test_an_update_is_that_of_the_orm(chat: Chat) -> None:
    before = chat.updated_at
    chat.last_seq, chat.title = 40, "not written"
    Update(Chat, "last_seq", "updated_at").save(chat)
    found = Chat.objects.get(pk=chat.pk)
    assert (found.last_seq, found.updated_at) == (40, chat.updated_at)
    assert found.updated_at > before
    assert found.title != "not written"
    Update(ConversationBrief, "due", "state").set(chat.pk, True, {"a": 1})
    assert ConversationBrief.objects.values_list("due", "state").get(pk=chat.pk) == (True, {"a": 1})
    Update(Chat, "title").set(new_id(), "of nobody")
    assert not Chat.objects.filter(title="of nobody").exists()


def test_a_delete_takes_those_rows_alone(chat: Chat) -> None:
    message = Insert(Message).save(reply(chat, seq=7))
    delete = Delete(Message, "chat", "id", "role")
    assert delete.where(chat.pk, message.pk, Role.USER) == 0
    assert delete.where(chat.pk, message.pk, Role.ASSISTANT) == 1
    assert chat.messages.count() == 6


def test_a_write_is_one_query(chat: Chat) -> None:
    message = reply(chat, seq=7)
    with CaptureQueriesContext(connection) as captured:
        Insert(Message).save(message)
    assert len(captured.captured_queries) == 1


def test_models_have_keys_of_their_own() -> None:
    for model in (Chat, Message, ActiveReply, ContextRecord):
        assert model._meta.pk.get_internal_type() in ("UUIDField", "OneToOneField")


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite takes strings of any length")
def test_what_does_not_fit_is_said_as_the_orm_says_it(chat: Chat) -> None:
    with pytest.raises(DataError):
        Insert(Message).save(reply(chat, seq=7, model="x" * 200))
