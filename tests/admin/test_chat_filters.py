"""The filters of the list of chats: owner, policy, last activity, failed replies and summaries of low quality."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from conversations.models import Chat, ContentView, Message
from memory.models import ConversationBrief, SummaryRevision
from tests.admin.rows import add_revision, make_chat, text_of
from tests.support.exhaustive import first_of, first_row_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def chats(owner: User) -> dict[str, Chat]:
    """Make one chat for each filter, and one that no filter finds."""
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
    for name, kept in (("poor", 50), ("mended", 49)):
        ConversationBrief.objects.filter(chat=made[name]).update(kept_percent=kept)
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
    first_row_of(
        [
            ({"policy": "card"}, ["notes"]),
            ({"trouble": "failed"}, ["failed"]),
            ({"trouble": "quality"}, ["poor"]),  # a newer version of the other is good again
            ({"kept": "under-50"}, ["mended"]),
            ({"kept": "50-79"}, ["poor"]),
            ({"kept": "80-94"}, []),
            ({"kept": "from-95"}, []),
            ({"updated": "1"}, ["plain"]),
            ({"updated": "7"}, ["plain", "notes"]),
            ({"updated": "7", "policy": "card"}, ["notes"]),
            ({"trouble": "failed", "q": "olga"}, ["failed"]),
        ],
        3,
    ),
)
def test_it_narrows(query: dict[str, str], found: list[str], staff: Client, chats: dict[str, Chat]) -> None:
    assert titles(staff, **query) == found


@pytest.mark.parametrize("name", first_of(["policy", "trouble", "updated", "owner", "kept"]))
def test_what_is_no_choice_narrows_nothing(name: str, staff: Client, chats: dict[str, Chat]) -> None:
    for value in ("", "nonsense", "-1", "9" * 30, "²", "card' OR 1=1"):
        assert titles(staff, **{name: value}) == list(chats), value


def test_an_owner_leads_to_their_chats(staff: Client, chats: dict[str, Chat]) -> None:
    rosa = chats["rosa's"].owner
    assert f'href="/admin/conversations/chat/?owner={rosa.pk}">rosa</a>' in text_of(
        staff, "conversations_chat_changelist"
    )
    assert titles(staff, owner=rosa.pk) == ["rosa's"]
    assert ">rosa</a>" in text_of(staff, "conversations_chat_changelist", owner=rosa.pk)
    assert titles(staff, owner=10**8) == list(chats)  # nobody


def test_what_was_kept_is_shown(staff: Client, chats: dict[str, Chat]) -> None:
    assert "50% kept" in text_of(staff, "conversations_chat_changelist")


# By date


def offered(client: Client, page: str = "conversations_chat", **query: Any) -> dict[str, str]:
    """Return the date filters that a list offers, with their links."""
    shown = text_of(client, f"{page}_changelist", **query)
    found = re.search(r'<nav class="toplinks cm-dates".*?</nav>', shown, re.DOTALL)
    links = re.findall(r'<a href="([^"]+)">([^<]+)</a>', found[0]) if found else []
    return {title: html.unescape(url) for url, title in links}


@pytest.fixture
def dated(owner: User) -> None:
    for day in ("2025-11-30", "2026-01-05", "2026-03-09", "2026-03-31"):
        chat = make_chat(owner, title=day)
        Chat.objects.filter(pk=chat.pk).update(updated_at=f"{day}T12:00:00Z")


def test_by_year_month_and_day(staff: Client, dated: None) -> None:
    def follow(*path: str) -> tuple[list[str], list[str]]:
        query: dict[str, Any] = {}
        for title in path:
            query = dict(parse_qsl(offered(staff, **query)[title][1:]))
        return titles(staff, **query), list(offered(staff, **query))

    assert follow() == (["2026-03-31", "2026-03-09", "2026-01-05", "2025-11-30"], ["2025", "2026"])
    months = ["January 2026", "February 2026", "March 2026"]
    assert follow("2026") == (["2026-03-31", "2026-03-09", "2026-01-05"], ["‹ All dates", *months])
    found, days = follow("2026", "March 2026")
    assert found == ["2026-03-31", "2026-03-09"]
    assert days == ["‹ 2026", *(f"{day} March" for day in range(1, 32))]
    assert follow("2026", "March 2026", "9 March") == (["2026-03-09"], ["‹ March 2026"])
    assert follow("2026", "March 2026", "9 March", "‹ March 2026", "‹ 2026", "‹ All dates") == follow()


def test_within_a_year_and_a_month_the_only_one_is_not_offered(staff: Client, dated: None) -> None:
    Chat.objects.filter(title="2025-11-30").delete()
    assert list(offered(staff)) == ["January 2026", "February 2026", "March 2026"]
    Chat.objects.filter(title="2026-01-05").delete()
    assert list(offered(staff)) == [f"{day} March" for day in range(9, 32)]
    Chat.objects.filter(title="2026-03-31").delete()
    assert offered(staff) == {}


def test_a_date_keeps_the_other_filters(staff: Client, dated: None) -> None:
    assert "policy=chunked" in offered(staff, policy="chunked")["2026"]
    assert titles(staff, policy="card", updated_at__year="2026") == []


def test_what_is_no_date_is_no_error(staff: Client, dated: None) -> None:
    url = reverse("admin:conversations_chat_changelist")
    for value in ("nonsense", "-1", "0", "13", "9999", "9" * 30, "²"):
        for query in ({"updated_at__year": value}, {"updated_at__year": "2026", "updated_at__month": value}):
            assert staff.get(url, query).status_code in (200, 302, 400), value


def test_the_audit_log_has_dates_too(staff: Client, dated: None) -> None:
    chat = Chat.objects.first()
    assert chat is not None
    for _ in range(2):
        text_of(staff, "conversations_chat_change", chat.pk)
    ContentView.objects.filter(pk=ContentView.objects.order_by("pk")[0].pk).update(at="2025-01-01T00:00:00Z")
    assert "2025" in offered(staff, "conversations_contentview")


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL's plans go by sizes")
@pytest.mark.parametrize(
    ("query", "index"),
    first_row_of(
        [
            ({}, "chat_last_active"),
            ({"trouble": "failed"}, "message_failed"),
            ({"trouble": "quality"}, "revision_wanting"),
            ({"kept": "50-79"}, "brief_kept"),
            ({"updated_at__year": "2026", "updated_at__month": "3"}, "chat_last_active"),
        ],
        2,
    ),
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
