"""The list of chats, narrowed: by owner, policy, last activity, failed replies and summaries of low quality."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from conversations.models import Chat, Message
from memory.models import SummaryRevision
from tests.admin.rows import add_revision, make_chat, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def chats(owner: User) -> dict[str, Chat]:
    """One chat each that is found by one filter, and one by none."""
    made = {
        name: make_chat(owner, turns=2, title=name) for name in ("plain", "notes", "failed", "poor", "mended")
    }
    made["rosa's"] = make_chat(User.objects.create_user("rosa"), turns=1, title="rosa's")
    Chat.objects.filter(pk=made["notes"].pk).update(policy="card")
    Message.objects.filter(chat=made["failed"], seq=2).update(status="failed")
    for name in ("poor", "mended"):
        add_revision(made[name], 1, "Said hello.", through=2)
    SummaryRevision.objects.update(is_wanting=True)
    add_revision(made["mended"], 2, "Said hello twice.", through=4)
    for days, name in enumerate(made):
        Chat.objects.filter(pk=made[name].pk).update(
            updated_at=timezone.now() - timedelta(days=4 * days, hours=1)
        )
    return made


def titles(client: Client, **query: Any) -> list[str]:
    answer = client.get(reverse("admin:conversations_chat_changelist"), query)
    assert answer.status_code == 200
    return [chat.title for chat in answer.context["cl"].result_list]


def test_the_last_active_come_first(staff: Client, chats: dict[str, Chat]) -> None:
    assert titles(staff) == list(chats)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"policy": "card"}, ["notes"]),
        ({"trouble": "failed"}, ["failed"]),
        ({"trouble": "quality"}, ["poor"]),  # a newer version mended the other
        ({"updated": "1"}, ["plain"]),
        ({"updated": "7"}, ["plain", "notes"]),
        ({"updated": "7", "policy": "card"}, ["notes"]),
        ({"trouble": "failed", "q": "olga"}, ["failed"]),
    ],
)
def test_it_narrows(query: dict[str, str], found: list[str], staff: Client, chats: dict[str, Chat]) -> None:
    assert titles(staff, **query) == found


@pytest.mark.parametrize("name", ["policy", "trouble", "updated", "owner"])
@pytest.mark.parametrize("value", ["", "nonsense", "-1", "9" * 30, "²", "card' OR 1=1"])
def test_what_is_no_choice_narrows_nothing(
    name: str, value: str, staff: Client, chats: dict[str, Chat]
) -> None:
    assert titles(staff, **{name: value}) == list(chats)


def test_an_owner_leads_to_their_chats(staff: Client, chats: dict[str, Chat]) -> None:
    rosa = chats["rosa's"].owner
    assert f'href="/admin/conversations/chat/?owner={rosa.pk}">rosa</a>' in text_of(
        staff, "conversations_chat_changelist"
    )
    assert titles(staff, owner=rosa.pk) == ["rosa's"]
    assert ">rosa</a>" in text_of(staff, "conversations_chat_changelist", owner=rosa.pk)
    assert titles(staff, owner=10**8) == list(chats)  # nobody


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL's plans go by sizes")
@pytest.mark.parametrize(
    ("query", "index"),
    [
        ({}, "chat_last_active"),
        ({"trouble": "failed"}, "message_failed"),
        ({"trouble": "quality"}, "revision_wanting"),
    ],
)
def test_by_an_index(query: dict[str, str], index: str, staff: Client, chats: dict[str, Chat]) -> None:
    with CaptureQueriesContext(connection) as captured:
        titles(staff, **query)
    asked = [one["sql"] for one in captured.captured_queries if 'FROM "conversations_chat"' in one["sql"]]
    assert asked
    with connection.cursor() as cursor:
        plans = []
        for sql in asked:
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
            plans.append(str(cursor.fetchall()))
    assert any(index in plan for plan in plans), plans
