"""Statements that are compiled once return and store what the ORM does, on the database of this run."""

from datetime import timedelta
from itertools import accumulate
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import F, Model, QuerySet
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.chats import make_chat
from chatmemory.database.compiled import Select
from conversations import models
from conversations.models import Chat, Message
from conversations.replies import begin, finish
from memory import briefs, turn
from memory.briefs import Memory, brief_of
from memory.context import build
from memory.models import ConversationBrief

pytestmark = pytest.mark.django_db

ROWS = ("id", "seq", "superseded_by_id", "token_count", "metadata", "created_at", "cost_usd")


@pytest.fixture
def chat() -> Chat:
    return make_chat(User.objects.create_user("alice"), 30)


def fields(instance: Model | None) -> dict[str, Any] | None:
    """All stored values of an instance."""
    if instance is None:
        return None
    return {field.attname: getattr(instance, field.attname) for field in instance._meta.concrete_fields}


def test_compiled_selects_of_a_turn_equal_the_orms(chat: Chat) -> None:
    with transaction.atomic():
        for prepared in (models._CHAT, models._LOCKED_CHAT):
            assert fields(prepared.first(chat.pk, chat.owner_id)) == fields(Chat.objects.get(pk=chat.pk))
            assert prepared.first(chat.pk, chat.owner_id + 1) is None
            assert prepared.first(uuid4(), chat.owner_id) is None
        locked = briefs.LOCKED_BRIEF.first(*chat.key)
        assert fields(locked) == fields(ConversationBrief.objects.get(pk=chat.pk))


def test_related_rows_and_annotations_come_with_an_instance(chat: Chat, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        found: Any = begin._CHAT.first(*chat.key)
        assert (found.owner.username, hasattr(found, "active_reply")) == ("alice", False)
        assert not hasattr(found.owner, "allowance")
        assert found.brief.chat is found
        brief, now = fields(found.brief), found.now
    assert brief == fields(ConversationBrief.objects.get(pk=chat.pk))
    assert abs(timezone.now() - now) < timedelta(minutes=1)


def test_an_instance_can_be_saved_and_followed(chat: Chat) -> None:
    found = models._CHAT.first(chat.pk, chat.owner_id)
    assert found is not None
    assert found.owner.username == "alice"
    found.title = "another"
    found.save(update_fields=["title"])
    assert Chat.objects.get(pk=chat.pk).title == "another"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(after=st.integers(0, 70), before=st.integers(0, 70), limit=st.integers(1, 12))
def test_compiled_rows_equal_the_orms(chat: Chat, after: int, before: int, limit: int) -> None:
    def rows(chat_id: UUID, low: int, high: int) -> QuerySet[Message, Any]:
        between = Message.objects.filter(chat_id=chat_id, seq__gt=low, seq__lt=high)
        return between.order_by("-seq").values_list(*ROWS)[:limit]

    prepared = Select(rows)
    for _ in range(2):
        assert [tuple(row) for row in prepared.rows(chat.pk, after, before)] == list(rows(chat.pk, after, before))


@pytest.mark.parametrize("room", [0, 7, 10_000])
def test_texts_come_with_the_newest_rows_as_far_as_there_is_room(chat: Chat, room: int) -> None:
    memory = Memory.of(brief_of(chat)).with_budget(room)
    unfolded = Message.objects.filter(chat=chat, seq__gt=memory.brief.folded_through_seq)
    rows = list(unfolded.order_by("-seq"))
    newer = accumulate((row.token_count for row in rows), initial=0)
    texts = {row.seq: (row.content, row.payload) for row, tokens in zip(rows, newer, strict=False) if tokens <= room}
    span = build.load_unfolded(memory)
    assert {row.seq: (row.content, row.payload) for row in span.rows if row.content is not None} == texts
    assert [row.seq for row in span.rows] == [row.seq for row in reversed(rows)]


def test_a_select_is_compiled_once(chat: Chat) -> None:
    made: list[int] = []

    def counted(pk: UUID) -> QuerySet[Chat, Any]:
        made.append(1)
        return Chat.objects.filter(pk=pk)

    prepared = Select(counted)
    with CaptureQueriesContext(connection) as captured:
        assert prepared.first(chat.pk) == chat
        assert prepared.first(uuid4()) is None
    assert (len(made), len(captured.captured_queries)) == (1, 2)


def test_a_value_without_a_place_is_a_fault_of_ours(chat: Chat) -> None:
    with pytest.raises(AssertionError, match="no place"):
        Select(lambda pk, _: Chat.objects.filter(pk=pk)).first(chat.pk, 1)


def test_compiled_writes_of_a_turn_equal_the_orms(chat: Chat) -> None:
    other = Chat.objects.create(owner=chat.owner, policy=chat.policy, last_seq=3)
    now = timezone.now()

    def rows() -> list[Any]:
        return [list(model.objects.order_by("pk").values()) for model in (Chat, ConversationBrief)]

    with transaction.atomic():
        Chat.objects.filter(pk=chat.pk).update(last_seq=77, open_seq=5, updated_at=now, last_message_at=now)
        Chat.objects.filter(pk=other.pk, owner=chat.owner_id).update(
            last_seq=F("last_seq") + 2, updated_at=now, last_message_at=now
        )
        ConversationBrief.objects.filter(pk=chat.pk).update(anchor_seq=9)
        by_orm = rows()
        transaction.set_rollback(True)
    assert begin._LOCK_CHAT.run(other.pk, chat.owner_id, 2, now) == 1
    assert begin._LOCK_CHAT.run(other.pk, chat.owner_id + 1, 2, now) == 0
    assert finish._SET_CHAT.run(*chat.key, 77, 5, now) == 1
    assert turn._SET_ANCHOR.run(*chat.key, 9) == 1
    assert rows() == by_orm
