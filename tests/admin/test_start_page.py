"""The admin's start page, its menu, and the header of a chat's pages."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chatmemory.templatetags.menu import menu
from conversations.models import Chat, ContentView, Message
from memory.models import ConversationBrief
from tests.admin.rows import make_chat, member_of_staff, text_of

START = "/admin/"
pytestmark = pytest.mark.django_db


def start(client: Client) -> str:
    answer = client.get(START)
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_menu_is_grouped_by_what_people_do(staff: Client) -> None:
    html = start(staff)
    assert re.findall(r"<caption>([^<]+)</caption>", html) == [
        "Conversations",
        "Memory",
        "Operations",
        "Accounts",
    ]
    for name in ("Chats", "Memory of chats", "Limits", "Audit log", "Users"):
        assert f">{name}</a>" in html
    assert "contextrecord" not in html  # it is reached from its chat


def test_what_nobody_has_put_into_a_group_is_shown_all_the_same() -> None:
    apps = [
        {"models": [{"object_name": name, "name": name} for name in ("Chat", "Novelty", "ContextRecord")]}
    ]
    assert [(group["name"], [one["name"] for one in group["models"]]) for group in menu(apps)] == [
        ("Conversations", ["Chat"]),
        ("More", ["Novelty"]),
    ]


def test_what_needs_attention_comes_first(staff: Client, owner: User) -> None:
    chat = make_chat(owner)
    later = timezone.now() + timedelta(minutes=5)
    ConversationBrief.objects.filter(chat=chat).update(
        due=True, attempts=3, next_attempt_at=later, last_error={"code": "refused"}
    )
    html = start(staff)
    assert "Needs attention" in html
    assert "Failing: 1" in html.split("Pending updates")[0]
    assert ">A trip</a>" in html
    assert ContentView.objects.get(page="memory_conversationbrief").object_id == "list"
    clerk = member_of_staff("clerk", "view_conversationbrief", "view_chat")
    looks = ContentView.objects.count()
    assert "A trip" not in start(clerk)
    assert ContentView.objects.count() == looks


def test_recent_chats_are_listed(staff: Client, owner: User) -> None:
    for number in range(10):
        make_chat(owner, title=f"Trip {number}")
    html = start(staff)
    listed = html.split("Recent chats", 1)[1]
    assert re.findall(r">(Trip \d)</a>", listed) == [f"Trip {number}" for number in range(9, 1, -1)]
    assert "olga" in listed
    assert "Up to date" in listed
    (seen,) = ContentView.objects.filter(page="conversations_chat")
    assert (seen.object_id, seen.count, seen.chat_id, seen.owner_id) == ("list", 8, None, owner.pk)
    clerk = member_of_staff("clerk", "view_conversationbrief", "view_chat")
    told = start(clerk)
    assert "Recent chats" in told
    assert "Trip" not in told
    assert "Recent chats" not in start(member_of_staff("sam", "view_conversationbrief"))
    assert ContentView.objects.count() == 1


def test_permissions_are_granted_in_the_words_of_the_pages(staff: Client) -> None:
    html = text_of(staff, "auth_group_add").casefold()
    for words in ("can change memory", "can view prompt sent", "can view audit log entry"):
        assert words in html
    for words in ("conversation brief", "summary revision", "context record", "content view", "allowance"):
        assert f"can view {words}" not in html


def test_who_may_see_no_memory_starts_at_the_menu(owner: User) -> None:
    html = start(member_of_staff("sam", "view_chat"))
    assert 'href="/admin/conversations/chat/"' in html
    assert "Needs attention" not in html


def test_the_former_address_leads_there(staff: Client) -> None:
    assert staff.get("/admin/overview/", {"days": 7})["Location"] == "/admin/?days=7"


def test_one_line_under_the_title_tells_whose_chat_it_is(staff: Client, remembered: Chat) -> None:
    Message.objects.filter(chat=remembered, seq=14).update(cost_usd="0.0012")
    (line,) = re.findall(
        r'<p class="cm-line-under">(.*?)</p>', text_of(staff, "conversations_chat_change", remembered.pk)
    )
    told = re.sub(r"<[^>]+>", "", line)
    for part in ("owner olga", "started just now", "Rolling summary", "14 messages", "$0.0012"):
        assert part in told
    assert reverse("admin:auth_user_change", args=[remembered.owner_id]) in line
    clerk = member_of_staff("clerk", "view_chat")
    assert "$0.0012" not in text_of(clerk, "conversations_chat_change", remembered.pk)


def test_it_opens_at_the_newest_messages(staff: Client, owner: User) -> None:
    chat = make_chat(owner, turns=60)
    assert "cm-from-end" in text_of(staff, "conversations_chat_change", chat.pk)
    for query in ({"after": 0}, {"at": 5}):
        assert "cm-from-end" not in text_of(staff, "conversations_chat_change", chat.pk, **query)


def test_a_sign_in_with_a_foreign_next_ends_here(boss: User) -> None:
    boss.set_password("correct horse")
    boss.save()
    form = {"username": "boss", "password": "correct horse", "next": "https://example.com/"}
    answer = Client().post("/admin/login/", form)
    assert (answer.status_code, answer.headers["location"]) == (302, "/admin/")
