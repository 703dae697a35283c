"""The lists of the admin: their cost in queries, and their search."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from conversations.models import Chat, Message
from memory.admin.states import STATES
from memory.models import ConversationBrief
from tests.admin.rows import PAGES, add_revision, begin, make_chat, say, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.exhaustive]


# What it costs

DATED = ("conversations_chat", "conversations_contentview")
"""Lists that offer dates, for which the first and the last are queried."""


def fill(owner: User, chats: int) -> None:
    for number in range(chats):
        chat = make_chat(owner, turns=2, title=f"Chat {number}")
        add_revision(chat, 1, "Said hello.", through=2)
        say(chat, "More?", "More.")
        begin(chat, "And?", f"key {number}")


def queries(client: Client, page: str, **query: Any) -> list[str]:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        text_of(client, f"{page}_changelist", **query)
    return [found["sql"] for found in captured.captured_queries]


@pytest.mark.parametrize("page", PAGES)
def test_a_list_costs_the_same_queries_for_50_rows_as_for_5(
    page: str, staff: Client, owner: User, django_assert_max_num_queries: Any
) -> None:
    fill(owner, 5)
    few = queries(staff, page)
    fill(User.objects.create_user("other"), 45)
    assert len(queries(staff, page)) == len(few)
    with django_assert_max_num_queries(6 + 2 * (page in DATED)):
        text_of(staff, f"{page}_changelist")


@pytest.mark.parametrize("page", ["conversations_chat", "memory_conversationbrief"])
@pytest.mark.parametrize("state", STATES)
def test_a_list_of_chats_in_a_state_costs_the_same_queries_for_20_as_for_2(
    page: str, state: str, staff: Client, owner: User
) -> None:
    def cost(chats: int) -> int:
        fill(User.objects.create_user(f"owner of {chats}"), chats)
        ConversationBrief.objects.update(
            due=True, attempts=1, degraded=True, requested="rebuild" if state == "rebuild" else "update"
        )
        ConversationBrief.objects.update(next_attempt_at=timezone.now() + timedelta(hours=1))
        return len(queries(staff, page, memory=state))

    assert cost(2) == cost(18) <= 6 + 2 * (page in DATED)


def test_the_page_of_a_brief_costs_the_same_however_long_the_chat(staff: Client, owner: User) -> None:
    def cost(turns: int, revisions: int) -> int:
        chat = make_chat(owner, turns=turns)
        for version in range(1, revisions + 1):
            add_revision(chat, version, "Said hello.", through=2)
        with CaptureQueriesContext(connection) as captured:
            text_of(staff, "memory_conversationbrief_change", chat.pk)
        return len(captured)

    cost(1, 1)  # loads what is looked up once per process
    assert cost(50, 50) == cost(5, 5) <= 14  # including the one that records the view


def test_no_list_counts_or_reads_the_table_of_messages(staff: Client, owner: User) -> None:
    fill(owner, 2)
    for page in ("conversations_message", "memory_contextrecord"):
        for sql in queries(staff, page):
            assert "COUNT(*)" not in sql or "LIMIT 5000" in sql
            assert not re.search(r'SELECT[^)]*"conversations_message"\."content"[,\s]', sql)


# Finding


@pytest.mark.parametrize(
    "page",
    ["conversations_chat", "memory_conversationbrief", "conversations_message", "memory_summaryrevision"],
)
@pytest.mark.parametrize("term", [lambda chat: str(chat.pk), lambda chat: "OLGA", lambda chat: "journey to"])
def test_it_finds_by_id_owner_and_title(
    page: str, term: Callable[[Chat], str], staff: Client, owner: User
) -> None:
    mine = make_chat(owner, title="A journey to Ljubljana")
    other = make_chat(User.objects.create_user("rosa"), title="Tea")
    for chat in (mine, other):
        add_revision(chat, 1, "Said hello.", through=2)
    response = staff.get(reverse(f"admin:{page}_changelist"), {"q": term(mine)})
    found = {getattr(row, "chat_id", row.pk) for row in response.context["cl"].result_list}
    assert found == {mine.pk}


def test_it_finds_a_message_and_its_record_by_id(staff: Client, remembered: Chat) -> None:
    reply = Message.objects.get(chat=remembered, seq=14)
    for page in ("conversations_message", "memory_contextrecord"):
        response = staff.get(reverse(f"admin:{page}_changelist"), {"q": str(reply.pk)})
        assert [row.pk for row in response.context["cl"].result_list] == [reply.pk]


def test_it_does_not_search_what_was_said(staff: Client, owner: User) -> None:
    make_chat(owner, said="cellar")
    for page in PAGES:
        response = staff.get(reverse(f"admin:{page}_changelist"), {"q": "cellar"})
        assert not response.context["cl"].result_list


def test_a_list_of_one_chat_is_in_its_order_and_can_be_filtered(
    staff: Client, remembered: Chat, owner: User
) -> None:
    make_chat(owner)
    query = {"chat__id__exact": str(remembered.pk), "role__exact": "user"}
    response = staff.get(reverse("admin:conversations_message_changelist"), query)
    assert [message.seq for message in response.context["cl"].result_list] == [1, 3, 5, 7, 9, 11, 13]


@pytest.mark.parametrize(
    "query", [{"chat__id__exact": "nonsense"}, {"q": "'\"%_\\"}, {"q": str(uuid4())}, {"p": "99"}]
)
def test_a_nonsense_query_is_no_error(query: dict[str, str], staff: Client, remembered: Chat) -> None:
    for page in PAGES:
        status = staff.get(reverse(f"admin:{page}_changelist"), query).status_code
        unknown = "chat__id__exact" in query and page in ("conversations_chat", "memory_contextrecord")
        assert status == 400 if unknown else status in (200, 302)
