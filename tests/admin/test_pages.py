"""The content of the admin's pages; everything that people said is escaped as text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from conversations import chat_lifecycle
from conversations.models import Chat, Message
from memory.models import ContextRecord, ConversationBrief, SummaryRevision
from tests.admin.rows import EVIL, PAGES, every_page, make_chat, make_saying, say_elsewhere, text_of

pytestmark = pytest.mark.django_db


# Content


def test_the_brief_shows_what_is_remembered_and_what_it_covers(staff: Client, remembered: Chat) -> None:
    html = text_of(staff, "memory_conversationbrief_change", remembered.pk)
    assert "The room is booked." in html
    assert "Where the 7 finished turns are" in html
    assert re.search(r"<b>2</b>\s+In the summary", html)
    assert re.search(r"<b>5</b>\s+In the prompt in full", html)
    for revision in SummaryRevision.objects.filter(chat=remembered):
        assert reverse("admin:memory_summaryrevision_change", args=[revision.pk]) in html


def test_the_brief_tells_its_troubles(staff: Client, remembered: Chat) -> None:
    later = timezone.now()
    ConversationBrief.objects.filter(chat=remembered).update(
        last_error={"code": "upstream_timeout", "attempt": 3},
        attempts=3,
        next_attempt_at=later,
        degraded=True,
        lease_owner="host:1:ab",
        lease_expires_at=later,
    )
    html = text_of(staff, "memory_conversationbrief_change", remembered.pk)
    for told in ("The model did not answer in time.", "built-in summarizer", "host:1:ab"):
        assert told in html


def test_a_revision_shows_its_changes_and_leads_back(staff: Client, remembered: Chat) -> None:
    newest = SummaryRevision.objects.get(chat=remembered, version=2)
    html = text_of(staff, "memory_summaryrevision_change", newest.pk)
    assert "The <del>hall</del><ins>room</ins> is booked." in html
    span = re.search(r'href="([^"]+)">1 turn, messages 3–4', html)
    assert span is not None
    listed = staff.get(span[1].replace("&amp;", "&"))
    assert [message.seq for message in listed.context["cl"].result_list] == [3, 4]


def test_a_record_shows_what_was_sent_and_proves_it(staff: Client, remembered: Chat) -> None:
    record = ContextRecord.objects.get(reply__chat=remembered)
    html = text_of(staff, "memory_contextrecord_change", record.pk)
    assert "Verified: identical to the prompt that was sent" in html
    assert "And where do we sleep?" in html
    assert "The room is booked." in html


def test_a_record_says_so_when_its_prompt_is_not_what_was_sent(staff: Client, remembered: Chat) -> None:
    record = ContextRecord.objects.get(reply__chat=remembered)
    Message.objects.filter(replies=record.reply).update(content="Something else")
    html = text_of(staff, "memory_contextrecord_change", record.pk)
    assert "no longer be rebuilt" in html
    assert "Something else" not in html


def test_a_chat_leads_to_its_memory(staff: Client, remembered: Chat) -> None:
    html = text_of(staff, "conversations_chat_change", remembered.pk)
    assert reverse("admin:memory_conversationbrief_change", args=[remembered.pk]) in html
    for page in ("conversations_message", "memory_summaryrevision"):
        assert f"{reverse(f'admin:{page}_changelist')}?chat__id__exact={remembered.pk}" in html
    assert "in 14 messages; 100 sent to models, 20 written by them" in html


def test_a_message_leads_to_what_the_model_was_sent(staff: Client, remembered: Chat) -> None:
    reply = Message.objects.get(chat=remembered, seq=14)
    html = text_of(staff, "conversations_message_change", reply.pk)
    assert reverse("admin:memory_contextrecord_change", args=[reply.pk]) in html


def test_a_chat_without_messages_has_a_page(staff: Client, owner: User) -> None:
    chat = chat_lifecycle.create_chat(owner)
    assert "0 messages" in text_of(staff, "conversations_chat_change", chat.pk)
    assert str(chat.pk) in text_of(staff, "conversations_chat_changelist")


# Escaping


@pytest.fixture
def evil(owner: User) -> Chat:
    chat = make_saying(owner, EVIL)
    say_elsewhere(chat, EVIL)
    return chat


def test_no_page_renders_what_people_said(staff: Client, evil: Chat) -> None:
    pages = dict(every_page(staff))
    assert len(pages) > len(PAGES) * 2
    for page, html in pages.items():
        for tag in ("<script>", "<img src=x", "<svg/onload", "alert(3)&gt;14"):
            assert tag not in html, page
    assert escape(EVIL) in pages[f"memory_conversationbrief {evil.pk}"]


def test_no_page_needs_an_inline_script_or_style(staff: Client, remembered: Chat) -> None:
    for page, html in every_page(staff):
        assert not re.search(r"<script(?![^>]*\bsrc=)[^>]*>[^<]*\S", html), page
        assert not re.search(r"<[^>]+\s(style|on\w+)=", html), page


class Forms(HTMLParser):
    """Count the forms of a page. Browsers drop a form nested in another, and its buttons then submit the outer one."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = self.seen = self.nested = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "form":
            self.depth, self.seen = self.depth + 1, self.seen + 1
            self.nested += self.depth > 1

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag == "form"


def test_no_form_is_within_another(staff: Client, evil: Chat) -> None:
    for page, html in every_page(staff):
        found = Forms()
        found.feed(html)
        assert found.seen, page
        assert (found.nested, found.depth) == (0, 0), page


def test_every_time_is_shown_in_the_zone_of_whoever_looks(staff: Client, evil: Chat) -> None:
    """Django writes times of a field in the server's zone. Ours are `<time>`s, which a script converts."""
    for page, html in every_page(staff):
        assert not re.search(r"\d{4}, (\d+(:\d\d)? [ap]\.m\.|noon|midnight)", html), page


def test_lists_show_length_and_not_text(staff: Client, owner: User) -> None:
    make_chat(owner, said="the secret of the cellar")
    for page in ("conversations_message", "memory_conversationbrief", "conversations_chat"):
        assert "secret of the cellar" not in text_of(staff, f"{page}_changelist")
