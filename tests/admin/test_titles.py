"""Pages of a chat show titles first and ids small, with a breadcrumb; staff who may not read titles see ids."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse

from conversations.models import Chat, ContentView, Message
from memory.models import SummaryRevision
from tests.admin.rows import PAGES, begin, member_of_staff, text_of

pytestmark = pytest.mark.django_db

STEP = re.compile(r"<li>(?:<a [^>]*>)?<bdi[^>]*>([^<]*)</bdi>")


def trail_of(html: str) -> list[str]:
    """Return the names in the breadcrumb."""
    (shown,) = re.findall(r'<nav class="cm-trail".*?</nav>', html, re.DOTALL)
    return [unescape(name) for name in STEP.findall(shown)]


def pages_of(chat: Chat) -> dict[str, list[str]]:
    """Return the pages of a chat by address, with the part of the breadcrumb after the chat."""
    reply = Message.objects.get(chat=chat, seq=14)
    version = SummaryRevision.objects.get(chat=chat, version=2)
    brief = "memory_conversationbrief"
    ways: list[tuple[str, list[object], list[str]]] = [
        ("conversations_chat_change", [chat.pk], []),
        ("conversations_chat_delete", [chat.pk], ["Delete"]),
        ("conversations_chat_history", [chat.pk], ["Staff actions"]),
        ("conversations_chat_context", [chat.pk], ["Preview of the next prompt"]),
        ("conversations_chat_trace", [chat.pk], ["Trace a fact"]),
        ("conversations_message_change", [reply.pk], ["Message 14"]),
        ("conversations_message_delete", [reply.pk], ["Message 14", "Delete"]),
        (f"{brief}_change", [chat.pk], ["Memory"]),
        (f"{brief}_edit", [chat.pk], ["Memory", "Edit"]),
        (f"{brief}_diff", [chat.pk], ["Memory", "Compare versions 1 and 2"]),
        ("memory_summaryrevision_change", [version.pk], ["Memory", "Version 2"]),
        ("memory_contextrecord_change", [reply.pk], ["Prompt sent for message 14"]),
    ]
    return {reverse(f"admin:{name}", args=arguments): way for name, arguments, way in ways}


def test_every_page_of_a_chat_shows_the_way_to_it(staff: Client, remembered: Chat) -> None:
    for url, way in pages_of(remembered).items():
        html = staff.get(url).content.decode()
        assert trail_of(html) == ["Home", "Chats", "A trip", *way], url
        assert ContentView.objects.filter(chat_id=remembered.pk).exists(), url
        ContentView.objects.all().delete()


def test_who_may_not_read_titles_is_shown_ids_on_the_way(remembered: Chat) -> None:
    views = [f"view_{page.split('_')[1]}" for page in PAGES]
    clerk = member_of_staff("clerk", *views, "change_conversationbrief", "delete_chat", "delete_message")
    name = f"Chat {str(remembered.pk)[:8]}…{str(remembered.pk)[-6:]}"
    shown = 0
    for url, way in pages_of(remembered).items():
        answer = clerk.get(url)
        if answer.status_code == 403:  # this page shows only content
            continue
        assert trail_of(answer.content.decode()) == ["Home", "Chats", name, *way], url
        assert "A trip" not in answer.content.decode(), url
        shown += 1
    assert shown == 9
    assert not ContentView.objects.exists()


@pytest.mark.parametrize(
    ("action", "page"), [("rebuild", "conversations_chat"), ("restore", "memory_summaryrevision")]
)
def test_a_confirmation_names_the_chat(action: str, page: str, staff: Client, remembered: Chat) -> None:
    version = SummaryRevision.objects.get(chat=remembered, version=1)
    row = version.pk if action == "restore" else remembered.pk
    form = {"action": action, "_selected_action": [str(row)]}
    html = staff.post(reverse(f"admin:{page}_changelist"), form).content.decode()
    assert "A trip</b>?" in html
    assert ContentView.objects.filter(chat_id=remembered.pk, page=page).exists()


def test_titles_come_first_in_lists_with_the_id_to_copy(staff: Client, remembered: Chat) -> None:
    begin(remembered, "And eat?", "a key")
    for page in PAGES:
        html = text_of(staff, f"{page}_changelist")
        row = html[html.index("<tbody>") :]
        first = re.search(r'class="field-(\w+)', row)
        assert first is not None, page
        assert first[1] == "called", page
        assert f'data-copy="{remembered.pk}"' in row
        assert re.search(r'<a class="cm-name"[^>]*>A trip</a>', row), page


def test_a_chat_without_a_title_has_a_name(staff: Client, remembered: Chat) -> None:
    Chat.objects.update(title="")
    assert "Untitled chat</a>" in text_of(staff, "conversations_chat_changelist")
    assert not ContentView.objects.exists()
