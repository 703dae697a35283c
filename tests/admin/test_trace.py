"""Staff trace a fact: from the form on a page to the version that lost it."""

from __future__ import annotations

import html
import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from conversations.models import Chat, ContentView
from memory.models import ContextRecord, SummaryRevision
from tests.admin.rows import EVIL, add_revision, make_chat, member_of_staff, say, text_of

pytestmark = pytest.mark.django_db

PAGE = "conversations_chat_trace"


def page(client: Client, chat: Chat, **query: str) -> str:
    """Return the page's text, without tags."""
    text = re.sub(r"<[^>]+>", " ", text_of(client, PAGE, chat.pk, **query).partition('id="content-main"')[2])
    return re.sub(r"\s+([.,;])", r"\1", " ".join(html.unescape(text).split()))


@pytest.fixture
def lost(owner: User) -> Chat:
    """A chat that says at its beginning where to sleep; the second version of its summary has lost that."""
    chat = make_chat(owner, said="The hostel is Zeppelin")
    add_revision(chat, 1, "They sleep at the Zeppelin hostel.", through=2)
    add_revision(chat, 2, "They sleep well.", through=4)
    say(chat, "And what of the rain?", "None.")
    return chat


def test_it_leads_from_the_messages_to_the_version_that_lost_it(staff: Client, lost: Chat) -> None:
    shown = page(staff, lost, text="zeppelin")
    assert "Said in 12 messages, newest first" in shown
    assert "No longer in the summary" in shown
    assert "In version 1; lost in version 2 by an update with messages 3–4" in shown
    difference = f"{reverse('admin:memory_conversationbrief_diff', args=[lost.pk])}?from=1&amp;to=2"
    assert f'href="{difference}"' in text_of(staff, PAGE, lost.pk, text="zeppelin")
    assert "The prompt would contain it:" in shown


def test_what_the_summary_holds_and_what_nobody_said_is_told(staff: Client, lost: Chat) -> None:
    assert "In the summary now In versions 1–2, the newest." in page(staff, lost, text="sleep")
    nothing = page(staff, lost, text="heron")
    for words in (
        "Never said",
        "In no version of the summary",
        "The prompt would not contain it.",
    ):
        assert words in nothing


def test_without_words_to_look_for_it_says_so(staff: Client, lost: Chat) -> None:
    assert "only very common words" in page(staff, lost, text="the")
    assert "Enter a number, a name or a few words" in page(staff, lost)
    assert "Enter a number, a name or a few words" in page(staff, lost, text=" ")


def test_the_box_is_on_each_page_where_staff_look_for_something(staff: Client, lost: Chat) -> None:
    url = reverse(f"admin:{PAGE}", args=[lost.pk])
    record = ContextRecord.objects.get(reply__chat=lost)
    revision = SummaryRevision.objects.filter(chat=lost)[0]
    for name, pk in (
        ("conversations_chat_change", lost.pk),
        ("conversations_chat_context", lost.pk),
        ("memory_conversationbrief_change", lost.pk),
        ("memory_contextrecord_change", record.pk),
        ("memory_summaryrevision_change", revision.pk),
        (PAGE, lost.pk),
    ):
        shown = text_of(staff, name, pk)
        assert f'<form id="cm-trace-form" method="get" action="{url}">' in shown, name
        assert shown.count('id="cm-trace"') == 1, name


def test_only_who_may_read_content_may_trace_it_and_each_look_is_recorded(lost: Chat) -> None:
    url = reverse(f"admin:{PAGE}", args=[lost.pk])
    blind = member_of_staff("blind", "view_chat")
    assert blind.get(url, {"text": "zeppelin"}).status_code == 403
    assert 'id="cm-trace"' not in text_of(blind, "conversations_chat_change", lost.pk)
    assert Client().get(url, {"text": "zeppelin"}).status_code == 302
    before = ContentView.objects.count()
    reads = member_of_staff("reads", "view_chat", "view_content")
    shown = reads.get(url, {"text": "zeppelin"}).content.decode()
    assert "lost in version 2" in shown
    assert "/diff/" not in shown, "versions have pages that this one may not see"
    seen = ContentView.objects.order_by("-pk")[0]
    assert (ContentView.objects.count(), seen.viewer_name, seen.chat_id) == (before + 1, "reads", lost.pk)


def test_what_was_said_is_shown_as_text(staff: Client, owner: User) -> None:
    chat = make_chat(owner, said=EVIL)
    shown = text_of(staff, PAGE, chat.pk, text=f"alert {EVIL}")
    assert "<script>alert" not in shown
    assert "<img src=x" not in shown


def test_a_search_says_what_the_summary_no_longer_says(staff: Client, lost: Chat) -> None:
    found = text_of(staff, "conversations_chat_change", lost.pk, q="zeppelin").partition("cm-found")[2]
    assert "summarized, but no longer in the summary" in found
    add_revision(lost, 3, "The Zeppelin again.", through=6)
    again = text_of(staff, "conversations_chat_change", lost.pk, q="zeppelin").partition("cm-found")[2]
    assert "no longer in the summary" not in again
    assert "in the summary" in " ".join(again.split())
