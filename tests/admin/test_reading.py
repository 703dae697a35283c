"""Staff read a chat as the playground shows it, without changing it, and search messages across all chats."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from conversations.models import Chat, ContentView, Message
from memory.admin.chat import search
from tests.admin.rows import EVIL, make_chat, member_of_staff, say, text_of
from tests.security.access.traces import everything

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader() -> Client:
    return member_of_staff("reader", "view_chat", "view_content")


def read(client: Client, chat: Chat, **query: Any) -> str:
    return text_of(client, "conversations_chat_read", chat.pk, **query)


# Reading


def test_it_shows_the_chat_with_its_memory_and_is_recorded(reader: Client, remembered: Chat) -> None:
    html = read(reader, remembered)
    for shown in ("A trip", "And where do we sleep?", "At the hostel.", "The room is booked.", "Hello 0"):
        assert shown in html
    look = ContentView.objects.get()
    assert (look.viewer_name, look.page, look.object_id) == (
        "reader",
        "conversations_chat",
        str(remembered.pk),
    )


def test_nothing_on_it_can_write(reader: Client, remembered: Chat) -> None:
    html = read(reader, remembered)
    for control in ("<form", "<input", "<textarea", "<select", "<button", "csrf", "token="):
        assert control not in html.replace("tokens", "")
    scripts = re.findall(r'<script[^>]*src="([^"]+)"', html)
    assert all("main.js" not in script and "api.js" not in script for script in scripts)
    before = everything("conversations.ContentView")
    url = reverse("admin:conversations_chat_read", args=[remembered.pk])
    for method in ("post", "put", "patch", "delete"):
        assert getattr(reader, method)(url, {"message": "x"}).status_code == 405
    assert everything("conversations.ContentView") == before


def test_the_api_gives_a_reader_no_part_of_it(reader: Client, remembered: Chat) -> None:
    """A session of staff reads only in the admin. The API treats its user as a stranger to this chat."""
    for path in ("", "/messages", "/brief"):
        assert reader.get(f"/v1/chats/{remembered.pk}{path}").status_code in (401, 404)
    said = Message.objects.count()
    body = {"chat_id": str(remembered.pk), "message": "x"}
    assert reader.post("/v1/message", body, content_type="application/json").status_code in (401, 403, 404)
    assert Message.objects.count() == said


@pytest.mark.parametrize("rights", [["view_chat"], ["view_content"], []])
def test_who_may_not_read_is_refused(rights: list[str], remembered: Chat) -> None:
    clerk = member_of_staff("clerk", *rights)
    assert clerk.get(reverse("admin:conversations_chat_read", args=[remembered.pk])).status_code == 403
    assert clerk.get(reverse("admin:conversations_chat_search"), {"q": "hostel"}).status_code == 403
    assert not ContentView.objects.exists()


def test_the_way_there_shows_to_those_who_may(reader: Client, staff: Client, remembered: Chat) -> None:
    clerk = member_of_staff("clerk", "view_chat")
    for client, is_shown in ((reader, True), (staff, True), (clerk, False)):
        html = text_of(client, "conversations_chat_change", remembered.pk)
        assert ("Open in playground" in html) == is_shown
        assert ("Search in the messages of all chats" in html) == is_shown


def test_a_long_chat_is_read_by_pages(reader: Client, owner: User) -> None:
    chat = make_chat(owner, turns=50)
    newest = read(reader, chat)
    assert newest.count('class="cm-message ') == 60
    assert 'href="?upto=40"' in newest
    oldest = read(reader, chat, upto=40)
    assert oldest.count('class="cm-message ') == 40
    assert "Older messages" not in oldest
    assert 'href="?upto=100"' in oldest
    for odd in ("0", "-1", "x", "9" * 12, "99999999"):
        assert (
            reader.get(reverse("admin:conversations_chat_read", args=[chat.pk]), {"upto": odd}).status_code
            == 200
        )


def test_what_was_said_is_text(reader: Client, owner: User) -> None:
    chat = make_chat(owner, title=EVIL[:150], said=EVIL)
    say(chat, EVIL, EVIL)
    for html in (read(reader, chat), text_of(reader, "conversations_chat_search", q="alert")):
        for tag in ("<script>", "<img src=x", "<svg/onload", "alert(3)&gt;14"):
            assert tag not in html
        assert not re.search(r"<[^>]+\s(style|on\w+)=", html)


# Searching


def hits(client: Client, **query: str) -> list[tuple[str, int]]:
    found = client.get(reverse("admin:conversations_chat_search"), query)
    assert found.status_code == 200
    return [(chat.title, message.seq) for message, chat, _, _ in found.context["hits"]]


@pytest.fixture
def zeppelins(owner: User) -> tuple[Chat, Chat]:
    """Chats of two owners that mention the same word."""
    mine, other = (
        make_chat(owner, title="Airships"),
        make_chat(User.objects.create_user("rosa"), title="Music"),
    )
    say(mine, "Where is the zeppelin?", "In the hangar.")
    say(other, "I like Led Zeppelin.", "Which album?")
    return mine, other


def test_it_finds_what_was_said_in_all_chats_and_records_the_chats(
    reader: Client, zeppelins: tuple[Chat, Chat]
) -> None:
    assert sorted(hits(reader, q="zeppelins")) == [("Airships", 13), ("Music", 13)]
    seen = ContentView.objects.filter(page="conversations_message")
    assert {(look.object_id, look.chat_id, look.count) for look in seen} == {
        ("search", chat.pk, 1) for chat in zeppelins
    }
    say(zeppelins[0], "How long is a zeppelin?", "245 metres.")
    assert len(hits(reader, q="zeppelins")) == 3
    assert next((look.chat_id, look.count) for look in seen.order_by("-count", "pk")) == (zeppelins[0].pk, 2)


def test_of_one_owner(reader: Client, zeppelins: tuple[Chat, Chat]) -> None:
    assert hits(reader, q="zeppelin", owner="ROSA") == [("Music", 13)]
    assert hits(reader, q="zeppelin", owner="nobody") == []
    assert "There is no user" in text_of(reader, "conversations_chat_search", q="zeppelin", owner="nobody")


def test_what_is_not_found_is_not_recorded(reader: Client, zeppelins: tuple[Chat, Chat]) -> None:
    for query in ("", "heron", "the", "'\"%_\\"):
        assert hits(reader, q=query) == []
    assert not ContentView.objects.exists()


def test_it_goes_on_where_the_time_of_a_page_was_over(
    reader: Client, zeppelins: tuple[Chat, Chat], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "SECONDS", -1)
    assert hits(reader, q="zeppelin") == [("Music", 13)]  # that owner was active last
    html = text_of(reader, "conversations_chat_search", q="zeppelin")
    assert "most recently active of 2 owners" in html
    assert "after=1" in html
    assert hits(reader, q="zeppelin", after="1") == [("Airships", 13)]
    assert hits(reader, q="zeppelin", after="7") == []
