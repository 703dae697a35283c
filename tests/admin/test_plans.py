"""No page of the admin scans a big table: checks the query plans of all queries that each page runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from conversations.models import Chat
from memory.admin.states import STATES
from memory.models import ConversationBrief
from tests.admin.rows import add_revision, make_chat, say
from tests.support.exhaustive import first_of

pytestmark = pytest.mark.django_db

BIG = ("conversations_message", "memory_contextrecord", "memory_summaryrevision")
OF_FEW = "context_not_counted"
"""A partial index of the few rows that are not yet counted. Scanning it whole is its purpose."""

on_sqlite = pytest.mark.skipif(
    connection.vendor != "sqlite", reason="PostgreSQL's plans go by sizes: see test_query_plans"
)

Ask = Callable[[Client, Chat], Any]


@pytest.fixture
def waiting(owner: User) -> Chat:
    chat = make_chat(owner, title="A trip")
    add_revision(chat, 1, "Said hello.", through=2)
    say(chat, "Where is the zeppelin?", "In the hangar.")
    ConversationBrief.objects.filter(chat=chat).update(due=True, attempts=1, degraded=True)
    return chat


def of_chat(name: str, **query: Any) -> Ask:
    return lambda client, chat: client.get(reverse(f"admin:{name}", args=[chat.pk]), query)


def listed(name: str, **query: Any) -> Ask:
    return lambda client, _: client.get(reverse(f"admin:{name}_changelist"), query)


def confirm(action: str) -> Ask:
    """Request the confirmation page of an action, with its estimate."""
    return lambda client, chat: client.post(
        reverse("admin:conversations_chat_changelist"), {"action": action, "_selected_action": [str(chat.pk)]}
    )


ASKED: dict[str, Ask] = {
    "chat": of_chat("conversations_chat_change"),
    "chat, oldest": of_chat("conversations_chat_change", after=0),
    "chat, in the middle": of_chat("conversations_chat_change", at=5),
    "chat, search": of_chat("conversations_chat_change", q="zeppelin"),
    "chat, search in vain": of_chat("conversations_chat_change", q="heron"),
    "what it would see now": of_chat("conversations_chat_context"),
    "brief": of_chat("memory_conversationbrief_change"),
    "edit": of_chat("memory_conversationbrief_edit"),
    "progress": of_chat("memory_conversationbrief_progress"),
    "rebuild": confirm("rebuild"),
    "resummarize": confirm("resummarize"),
    "overview": lambda client, _: client.get("/admin/", {"days": 90}),
    **{f"briefs, {name}": listed("memory_conversationbrief", memory=name) for name in STATES},
    **{f"chats, {name}": listed("conversations_chat", memory=name) for name in STATES},
}


def plans(client: Client, chat: Chat, ask: Ask) -> dict[str, str]:
    """Return each SELECT of a page with its query plan."""
    with CaptureQueriesContext(connection) as captured:
        assert ask(client, chat).status_code == 200
    asked = [query["sql"] for query in captured.captured_queries if query["sql"].startswith("SELECT")]
    assert asked
    return {sql: plan_of(sql) for sql in asked}


def plan_of(sql: str) -> str:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_seqscan = off")  # the tables are too small here
        cursor.execute(f"{'EXPLAIN QUERY PLAN' if connection.vendor == 'sqlite' else 'EXPLAIN'} {sql}")
        return "\n".join(str(row[-1]) for row in cursor.fetchall())


def scanned(plan: str, table: str) -> bool:
    return re.search(rf"\bSCAN {table}\b(?!.* {OF_FEW})", plan) is not None


@on_sqlite
@pytest.mark.parametrize("asked", first_of(ASKED, 6))
def test_no_page_reads_a_big_table_whole(asked: str, staff: Client, waiting: Chat) -> None:
    found = plans(staff, waiting, ASKED[asked])
    for table in BIG:
        assert {sql: plan for sql, plan in found.items() if scanned(plan, table)} == {}


@on_sqlite
def test_a_scan_would_be_seen() -> None:
    for table in BIG:
        assert scanned(plan_of(f"SELECT count(*) FROM {table} WHERE random() > 2"), table)


@pytest.mark.parametrize("page", first_of(["memory_conversationbrief", "conversations_chat"]))
@pytest.mark.parametrize("state", STATES)
def test_chats_in_a_state_are_found_by_their_index(
    page: str, state: str, staff: Client, waiting: Chat
) -> None:
    found = plans(staff, waiting, listed(page, memory=state))
    narrowed = {sql: plan for sql, plan in found.items() if f'"{page}"' in sql and "LIMIT 5000" in sql}
    assert len(narrowed) == 2  # the list, and its count
    assert {sql: plan for sql, plan in narrowed.items() if "brief_waiting" not in plan} == {}


@pytest.mark.parametrize(
    ("table", "signs"),
    [
        ("memory_conversationbrief", ("brief_waiting",)),
        ("memory_contextrecord", ("context_not_counted",)),
        ("memory_usageday", ("usage_day_variant", "(day>?)")),
        ("memory_foldday", ("fold_day_kind_policy", "(day>?)")),
    ],
)
def test_the_overview_reads_what_it_counts_by_an_index(
    table: str, signs: tuple[str, ...], staff: Client, waiting: Chat
) -> None:
    found = plans(staff, waiting, ASKED["overview"])
    counted = {sql: plan for sql, plan in found.items() if f'FROM "{table}"' in sql}
    assert counted
    for sql, plan in counted.items():
        assert any(sign in plan for sign in signs), (sql, plan)
