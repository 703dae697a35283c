"""Long reads survive a pooler that gives each transaction another connection, as PgBouncer in transaction mode does."""

import pytest
from django.contrib.auth.models import User
from django.db import connection

from chatmemory.database.rows import in_chunks
from conversations.interchange.rows import message_fields
from conversations.models import Chat, Message
from tests.admin.rows import make_chat, say

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_export_goes_on_after_its_connection_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chatmemory.database.rows.CHUNK_MAX_BYTES", 100)
    chat = make_chat(User.objects.create_user("olga"))
    for number in range(20):
        say(chat, f"Question {number}", "An answer.")
    chat = Chat.objects.get(pk=chat.pk)
    messages = message_fields(chat)
    said = []
    for one in messages:
        said.append(one["content"])
        connection.close()
    assert said == list(Message.objects.filter(chat=chat).order_by("seq").values_list("content", flat=True))
    assert len(said) > 40


def test_rows_keep_their_order_and_their_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chatmemory.database.rows.CHUNK_MAX_ROWS", 3)
    for number in range(7):
        User.objects.create_user(f"user{number}")
    rows = User.objects.order_by("-username").values("username")
    assert [row["username"] for row in in_chunks(rows)] == [f"user{number}" for number in range(6, -1, -1)]
