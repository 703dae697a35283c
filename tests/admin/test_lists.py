"""The lists of the admin: finding rows, filters, and what they cost; and the start page, whose counts lead to them."""

import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from conversations.accounts.models import Allowance
from conversations.models import Chat, ContentView, Message
from memory.admin import filters, messages
from memory.admin.filters import STATES
from memory.models import ConversationBrief, FoldDay, SummaryRevision, UsageDay
from tests.admin.rows import PAGES, add_revision, begin, make_chat, member_of_staff, plan_of, queries, say, text_of
from tests.support.exhaustive import first_of
from tests.support.factories import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.nightly]

LISTS = ("memory_conversationbrief", "conversations_chat")
IN_STATE = {
    "failing": {"failing", "failing rebuild"},
    "update": {"due", "delayed", "update"},
    "rebuild": {"degraded", "rebuild"},
    "degraded": {"degraded", "failing rebuild"},
}


def listed(client: Client, page: str, **query: Any) -> list[Any]:
    answer = client.get(reverse(f"admin:{page}_changelist"), query)
    assert answer.status_code == 200
    return list(answer.context["cl"].result_list)


def titles(client: Client, page: str = "conversations_chat", **query: Any) -> set[str]:
    return {getattr(row, "chat", row).title for row in listed(client, page, **query)}


# States of memory


@pytest.fixture
def in_states(owner: User) -> dict[str, Chat]:
    """Make one chat in each state, and one without pending work that failed before."""
    soon = timezone.now() + timedelta(minutes=5)
    failed = {"attempts": 1, "next_attempt_at": soon}
    fields: dict[str, dict[str, Any]] = {
        "due": {"due": True},
        "delayed": {"due": True, "delayed_until": soon},
        "failing": {"due": True, "attempts": 3, "last_error": {"code": "upstream_timeout", "message": "heron"}},
        "degraded": {"degraded": True},
        "update": {"requested": "update"},
        "rebuild": {"requested": "rebuild", "due": True},
        "failing rebuild": {"requested": "rebuild", "degraded": True, **failed, "last_error": {"code": "refused"}},
        "at rest": failed,  # no work is pending for that attempt
    }
    made = {name: make_chat(owner, turns=1, title=name) for name in fields}
    for name, values in fields.items():
        ConversationBrief.objects.filter(chat=made[name]).update(**values)
    return made


@pytest.mark.parametrize("state", first_of(STATES))
def test_start_page_numbers_link_to_matching_chats(state: str, staff: Client, in_states: dict[str, Chat]) -> None:
    html = staff.get("/admin/").content.decode()
    found = re.search(rf"<dt>{STATES[state]}</dt><dd[^>]*><a href=\"([^\"]*)\"[^>]*>(\d+)<", html)
    assert found is not None
    answer = staff.get(unescape(found[1]))
    assert {row.title for row in answer.context["cl"].result_list} == IN_STATE[state]
    assert int(found[2]) == len(IN_STATE[state])
    for page in LISTS:
        assert titles(staff, page, memory=state) == IN_STATE[state]


def test_a_list_says_why_a_chat_fails_and_when_it_goes_on(staff: Client, in_states: dict[str, Chat]) -> None:
    ConversationBrief.objects.filter(chat=in_states["failing"]).update(next_attempt_at=timezone.now())
    for page in LISTS:
        html = text_of(staff, f"{page}_changelist", memory="failing")
        assert "Failing (3 attempts)" in html
        assert "The model did not answer in time. Next attempt <time" in html
        assert "heron" not in html


def test_no_more_are_listed_than_a_list_pages_through_and_other_states_filter_nothing(
    staff: Client, in_states: dict[str, Chat], monkeypatch: pytest.MonkeyPatch
) -> None:
    for state in ("", "none", "due' OR 1=1", "x" * 500):
        assert titles(staff, memory=state) == set(in_states)
    assert titles(staff, memory="failing", q="rebuild") == {"failing rebuild"}
    monkeypatch.setattr(filters, "LIST_LIMIT", 2)
    assert len(titles(staff, memory="update")) == 2


# The start page


def test_start_page_lists_troubles_first(staff: Client, in_states: dict[str, Chat]) -> None:
    html = staff.get("/admin/").content.decode()
    attention = html.split("Pending updates")[0]
    troubles = ("Failing: 2", "Made by the built-in summarizer: 2", "Worker online: No worker")
    for words in ("Needs attention", *troubles):
        assert words in attention
    assert "heron" not in html
    assert not ContentView.objects.exists(), "it has only numbers"


def test_start_page_counts_chats_to_erase(staff: Client, settings: Any) -> None:
    make_chat(make_user())
    Chat.objects.update(last_message_at=timezone.now() - timedelta(hours=25))
    for days, due in ((0, 0), (4, 0), (1, 1)):
        settings.RETENTION_DAYS = days
        html = staff.get("/admin/").content.decode()
        assert f"Chats to be erased now</dt><dd>{due}<" in html


def test_figures_are_drawn_with_a_table_and_listed_by_day(staff: Client) -> None:
    today = timezone.now().date()
    tokens = {"memory_tokens": 500, "history_tokens": 2_000, "counted_tokens": 100, "counted_billed": 110}
    UsageDay.objects.create(day=today, model_variant="arco", replies=3, cost_usd=2, **tokens)
    FoldDay.objects.create(day=today, kind="fold", policy="chunked", folds=4)
    html = staff.get("/admin/").content.decode()
    for words in ("The last 30 days", "500 sent as memory</title>", "3 replies with 0 tokens", "Cost: $2.00"):
        assert words in html
    assert re.search(r'<td class="cm-number">500</td><td class="cm-number">2,000</td>', html)
    assert "1.10" in text_of(staff, "memory_usageday_changelist")
    assert "Rolling summary" in text_of(staff, "memory_foldday_changelist")
    clerk = member_of_staff("clerk", "view_conversationbrief")
    for shown in (clerk.get("/admin/").content.decode(), text_of(clerk, "memory_usageday_changelist")):
        assert "2.00" not in shown


EMPTY = {
    "conversations_app": "Use Add app",
    "conversations_enduser": "An end user appears when an app first names one",
    "conversations_allowance": "The limits in the settings hold for all",
    "memory_contextrecord": "A prompt appears with each reply",
    "auth_group": "Use Add group",
}


def test_list_explains_its_purpose_when_empty_and_counts_entries(staff: Client, owner: User) -> None:
    for page, words in EMPTY.items():
        assert words in " ".join(re.sub(r"<[^>]+>", "", text_of(staff, f"{page}_changelist")).split())
    Allowance.objects.create(user=owner)
    assert "1 entry" in text_of(staff, "conversations_allowance_changelist")
    assert "1 limits" not in text_of(staff, "conversations_allowance_changelist")


def test_start_page_without_memory_permission_is_menu(owner: User) -> None:
    html = member_of_staff("sam", "view_chat").get("/admin/").content.decode()
    assert 'href="/admin/conversations/chat/"' in html
    assert "Needs attention" not in html
    begin(make_chat(owner), "And eat?", "k")
    for permissions, has_link in ((["view_activereply"], True), ([], False)):
        viewer = member_of_staff(f"v{has_link}", "view_conversationbrief", *permissions)
        html = viewer.get("/admin/").content.decode()
        assert ("/admin/conversations/activereply/" in html.split("Pending updates")[1]) == has_link
    assert member_of_staff("x").get("/admin/overview/", {"days": 7})["Location"] == "/admin/?days=7"


# Filters of chats


def test_chats_are_filtered_by_owner_and_trouble(staff: Client, owner: User) -> None:
    other = User.objects.create_user("rosa")
    chats = {name: make_chat(owner, turns=1, title=name) for name in ("failed", "poor")}
    make_chat(other, title="rosa's")
    Message.objects.filter(chat=chats["failed"], role="assistant").update(status="failed")
    add_revision(chats["poor"], 1, "Said hello.", through=2)
    SummaryRevision.objects.update(is_wanting=True)
    assert titles(staff, owner__id__exact=other.pk) == {"rosa's"}
    assert titles(staff, owner__id__exact="9" * 40) == set()
    for page in LISTS:
        assert titles(staff, page, memory="failed") == {"failed"}
        assert titles(staff, page, memory="quality") == {"poor"}


def test_a_list_of_one_chat_is_in_its_order_and_can_be_filtered(staff: Client, remembered: Chat, owner: User) -> None:
    make_chat(owner)
    query = {"chat__id__exact": str(remembered.pk), "role__exact": "user"}
    assert [row.seq for row in listed(staff, "conversations_message", **query)] == [1, 3, 5, 7, 9, 11, 13]


# Finding


@pytest.mark.parametrize("page", first_of([*LISTS, "conversations_message", "memory_summaryrevision"]))
@pytest.mark.parametrize(
    "term", first_of([lambda chat: str(chat.pk), lambda chat: "OLGA", lambda chat: "journey to"], 3)
)
def test_rows_are_found_by_id_owner_and_title(
    page: str, term: Callable[[Chat], str], staff: Client, owner: User
) -> None:
    mine = make_chat(owner, title="A journey to Ljubljana")
    for chat in (mine, make_chat(User.objects.create_user("rosa"), title="Tea")):
        add_revision(chat, 1, "Said hello.", through=2)
    assert {getattr(row, "chat_id", row.pk) for row in listed(staff, page, q=term(mine))} == {mine.pk}


def test_a_message_and_its_prompt_are_found_by_id(staff: Client, remembered: Chat) -> None:
    reply = Message.objects.get(chat=remembered, seq=14)
    for page in ("conversations_message", "memory_contextrecord"):
        assert [row.pk for row in listed(staff, page, q=str(reply.pk))] == [reply.pk]


def test_messages_are_found_by_their_words_in_all_chats_and_in_one(
    staff: Client, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make_chat(owner, turns=2, said="The heron <b>stood</b> in the reeds")
    second = make_chat(User.objects.create_user("rosa"), turns=1, said="Herons again")
    everywhere = text_of(staff, "conversations_message_changelist", q="heron")
    assert "The <mark>heron</mark> &lt;b&gt;stood&lt;/b&gt;" in everywhere
    assert {row.chat_id for row in listed(staff, "conversations_message", q="heron")} == {first.pk, second.pk}
    found = ContentView.objects.filter(page="conversations_message", object_id="search")
    assert {seen.chat_id for seen in found} == {first.pk, second.pk}
    within = {"q": "heron", "chat__id__exact": str(second.pk)}
    assert {row.chat_id for row in listed(staff, "conversations_message", **within)} == {second.pk}
    assert listed(staff, "conversations_message", q="zeppelin") == []
    clerk = member_of_staff("clerk", "view_message")
    assert listed(clerk, "conversations_message", q="heron") == []
    assert "heron" not in text_of(clerk, "conversations_message_changelist")
    monkeypatch.setattr(messages, "SECONDS", -1.0)
    assert "Only the most recently active owners" in text_of(staff, "conversations_message_changelist", q="heron")


def test_other_lists_do_not_search_texts(staff: Client, owner: User) -> None:
    make_chat(owner, said="cellar")
    for page in PAGES:
        assert bool(listed(staff, page, q="cellar")) == (page == "conversations_message"), page


# What it costs


def fill(owner: User, chats: int) -> None:
    for number in range(chats):
        chat = make_chat(owner, turns=2, title=f"Chat {number}")
        add_revision(chat, 1, "Said hello.", through=2)
        say(chat, "More?", "More.")
        begin(chat, "And?", f"key {number}")


@pytest.mark.parametrize("page", first_of(PAGES))
def test_a_list_costs_the_same_queries_for_10_rows_as_for_2(page: str, staff: Client, owner: User) -> None:
    look = partial(text_of, staff, f"{page}_changelist")
    fill(owner, 2)
    few = queries(look)
    fill(User.objects.create_user("other"), 8)
    many = queries(look)
    assert len(many) == len(few) <= 6
    for sql in many:
        assert "COUNT(*)" not in sql or "LIMIT 5000" in sql
        assert not re.search(r'SELECT[^)]*"conversations_message"\."content"[,\s]', sql)


BIG = ("conversations_message", "memory_contextrecord", "memory_summaryrevision")
OF_FEW = "context_not_counted"
"""A partial index of the few rows that are not yet counted. Scanning it whole is its purpose."""


def rebuild(client: Client, chat: Chat) -> Any:
    form = {"action": "rebuild_memory", "_selected_action": [str(chat.pk)]}
    return client.post(reverse("admin:conversations_chat_changelist"), form)


def page_of(name: str, **query: Any) -> Callable[[Client, Chat], Any]:
    return lambda client, chat: client.get(reverse(f"admin:{name}", args=[chat.pk]), query)


ASKED: dict[str, Callable[[Client, Chat], Any]] = {
    "start page": lambda client, _: client.get("/admin/"),
    "chat": page_of("conversations_chat_change"),
    "chat, oldest": page_of("conversations_chat_change", **{"from": 1}),
    "chat, in the middle": page_of("conversations_chat_change", at=5),
    "trace": page_of("conversations_chat_trace", text="zeppelin"),
    "brief": page_of("memory_conversationbrief_change"),
    "edit": page_of("memory_conversationbrief_edit"),
    "rebuild": rebuild,
    "failing chats": lambda client, _: client.get("/admin/conversations/chat/?memory=failing"),
    "failed replies": lambda client, _: client.get("/admin/conversations/chat/?memory=failed"),
    "low quality": lambda client, _: client.get("/admin/conversations/chat/?memory=quality"),
    "search": lambda client, _: client.get("/admin/conversations/message/?q=zeppelin"),
}


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL's plans go by sizes: see test_query_plans")
@pytest.mark.parametrize("asked", first_of(ASKED, 6))
def test_no_page_reads_a_big_table_whole(asked: str, staff: Client, owner: User) -> None:
    chat = make_chat(owner, title="A trip")
    add_revision(chat, 1, "Said hello.", through=2)
    say(chat, "Where is the zeppelin?", "In the hangar.")
    ConversationBrief.objects.filter(chat=chat).update(due=True, attempts=1, degraded=True)

    def look() -> None:
        assert ASKED[asked](staff, chat).status_code == 200

    selects = [sql for sql in queries(look) if sql.startswith("SELECT")]
    assert selects
    assert [sql for sql in selects if _scans(sql)] == []
    assert _scans("SELECT count(*) FROM conversations_message WHERE random() > 2"), "a scan would be seen"


def _scans(sql: str) -> bool:
    plan = plan_of(sql)
    return any(re.search(rf"\bSCAN {table}\b(?!.* {OF_FEW})", plan) for table in BIG)
