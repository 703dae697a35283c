"""Transactions that need few round trips behave as other transactions do, on both databases."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatmemory.database import executors
from chatmemory.database.compiled import Select
from chatmemory.database.compiled_writes import Delete, Insert, Update
from chatmemory.database.ids import new_id
from chatmemory.database.trips import batched_transaction
from conversations.lookup import ACTIVE_REPLY
from conversations.models import Chat, Message, Role, Status
from memory import services as memory
from tests.support.factories import add_turn, brief_of, make_chat, make_user

pytestmark = pytest.mark.django_db(transaction=True)

TITLED = Update(Chat, "title")
INSERTED = Insert(Message)
DELETED = Delete(Message, "chat", "seq")
TITLES = Select(lambda chat: Chat.objects.filter(pk=chat).values_list("title"), type(new_id()))
ON_POSTGRESQL = pytest.mark.skipif(settings.IS_SQLITE, reason="SQLite is no trip away")


@pytest.fixture
def chat() -> Chat:
    made = make_chat(title="before")
    add_turn(made, "Hello", "Hi")
    return made


def title(chat: Chat) -> str:
    return Chat.objects.values_list("title", flat=True).get(pk=chat.pk)


def message(chat: Chat, seq: int, content: str = "more", **fields: object) -> Message:
    now = timezone.now()
    given = {"role": Role.USER, "status": Status.COMPLETE, "created_at": now, **fields}
    return Message(chat=chat, seq=seq, content=content, **given)


@pytest.mark.parametrize("text", ["100 % sure; it's 'so'", "%s", "; COMMIT; --", "back\\slash\n日本語"])
def test_what_waits_is_written_to_the_letter(chat: Chat, text: str) -> None:
    with batched_transaction():
        TITLED.set(chat.pk, text)
        INSERTED.save(message(chat, 3, text))
    assert title(chat) == text
    assert chat.messages.get(seq=3).content == text


def test_statements_run_in_their_order_those_of_the_orm_too(chat: Chat) -> None:
    with batched_transaction():
        TITLED.set(chat.pk, "first")
        assert title(chat) == "first"
        Chat.objects.filter(pk=chat.pk).update(title="second")
        INSERTED.save(message(chat, 3))
        assert [one.seq for one in chat.messages.order_by("seq").iterator()] == [1, 2, 3]
        assert DELETED.where(chat.pk, 3) == 1
        TITLED.set(chat.pk, "third")
    assert title(chat) == "third"
    assert chat.messages.count() == 2


def in_one(*acts: Callable[[], object], within: Callable[[], Any] = batched_transaction) -> None:
    """Run `acts` in one transaction."""
    with within():
        for act in acts:
            act()


def fail() -> None:
    raise RuntimeError


def test_what_fails_undoes_all_of_it(chat: Chat) -> None:
    rename = partial(TITLED.set, chat.pk, "never")
    with pytest.raises(IntegrityError):
        in_one(rename, lambda: INSERTED.save(message(chat, 1)), rename)
    assert title(chat) == "before"
    with pytest.raises(RuntimeError):
        in_one(rename, fail)
    in_one(rename, lambda: transaction.set_rollback(True))
    assert title(chat) == "before"


def test_what_is_checked_at_the_commit_is_not_committed(chat: Chat) -> None:
    of_nobody = message(chat, 3, role=Role.ASSISTANT, reply_to_id=new_id())
    with pytest.raises(IntegrityError):
        in_one(lambda: TITLED.set(chat.pk, "never"), lambda: INSERTED.save(of_nobody))
    assert title(chat) == "before"


def test_a_part_of_it_can_be_undone_alone(chat: Chat) -> None:
    rename = partial(TITLED.set, chat.pk, "undone")
    with batched_transaction():
        TITLED.set(chat.pk, "kept")
        with pytest.raises(IntegrityError):
            in_one(rename, lambda: INSERTED.save(message(chat, 1)), lambda: title(chat))
        with pytest.raises(RuntimeError):
            in_one(rename, fail, within=transaction.atomic)
    assert title(chat) == "kept"


def test_what_follows_a_commit_finds_it_done(chat: Chat) -> None:
    seen: list[str] = []
    with batched_transaction():
        executors.after_commit(lambda: seen.append(title(chat)))
        TITLED.set(chat.pk, "after")
        assert not seen
    assert seen == ["after"]


def test_what_is_read_ahead_is_read_as_it_is_when_asked_for(chat: Chat) -> None:
    with batched_transaction():
        ACTIVE_REPLY.read_ahead(chat.pk)
        assert ACTIVE_REPLY.first(chat.pk) is None
        TITLES.read_ahead(chat.pk)
        assert TITLES.rows(chat.pk) == [["before"]]
        for change in (
            lambda: TITLED.set(chat.pk, "changed"),
            lambda: Chat.objects.filter(pk=chat.pk).update(title="changed"),
            lambda: _in_a_part(chat),
        ):
            Chat.objects.filter(pk=chat.pk).update(title="before")
            TITLES.read_ahead(chat.pk)
            assert title(chat) == "before"
            change()
            assert TITLES.rows(chat.pk) == [["changed"]]


def _in_a_part(chat: Chat) -> None:
    with batched_transaction():
        TITLED.set(chat.pk, "changed")


def test_a_brief_that_is_counted_is_read_anew(chat: Chat) -> None:
    with batched_transaction():
        memory.lock_brief_ahead(chat.pk)
        brief = brief_of(chat)
        Update(type(brief), "unfolded_turns").set(chat.pk, 41)
        found = memory._LOCKED_BRIEF.first(chat.pk)
        assert found is not None
        assert found.unfolded_turns == 41


@ON_POSTGRESQL
def test_all_that_waits_goes_at_once() -> None:
    chat = Chat(owner=make_user(), policy="chunked")
    with CaptureQueriesContext(connection) as captured, batched_transaction():
        Insert(Chat).save(chat)
        TITLED.set(chat.pk, "new")
        INSERTED.save(message(chat, 1))
    (sent,) = [sql for query in captured.captured_queries if ";" in (sql := query["sql"])]
    assert [part.split()[0] for part in sent.split("; ")] == ["BEGIN", "INSERT", "UPDATE", "INSERT", "COMMIT"]


@ON_POSTGRESQL
def test_a_pooled_connection_that_was_ended_is_not_used(chat: Chat) -> None:
    with connection.cursor():
        dsn = connection.connection.info.dsn
    connection.close()
    with psycopg.connect(dsn) as other:
        ended = other.execute(
            "SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        assert ended.rowcount >= 1
    with batched_transaction():
        TITLED.set(chat.pk, "alive")
    assert title(chat) == "alive"
