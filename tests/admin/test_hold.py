"""Pausing and resuming updates in the admin, and clearing the summary: permissions, messages and the log."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from conversations.models import Chat
from memory.models import ConversationBrief, SummaryRevision
from tests.admin.rows import add_revision, make_chat, member_of_staff, text_of

pytestmark = pytest.mark.django_db

BRIEF, CHAT = "memory_conversationbrief_change", "conversations_chat_change"


@pytest.fixture
def chat(owner: User) -> Chat:
    """A chat of four turns, two of which are in the only version of the summary."""
    chat = make_chat(owner, turns=4)
    add_revision(chat, 1, "An order is on its way.", through=4)
    return chat


def brief_of(chat: Chat) -> ConversationBrief:
    return ConversationBrief.objects.get(chat=chat)


def press(client: Client, chat: Chat, what: str, **fields: str) -> Any:
    url = reverse(f"admin:memory_conversationbrief_{what}", args=[chat.pk])
    return client.post(url, fields, follow=True)


def test_it_is_shown_on_every_page_of_the_memory_and_resumed(staff: Client, chat: Chat) -> None:
    assert "Pause updates" in text_of(staff, CHAT, chat.pk)
    told = press(staff, chat, "pause").content.decode()
    assert "Updates are paused: the summary stays as it is until you resume them." in told
    brief = brief_of(chat)
    assert brief.paused_by is not None
    assert f"by {brief.paused_by}" in told
    for page in (BRIEF, CHAT):
        shown = text_of(staff, page, chat.pk)
        assert "Updates are paused" in shown
        assert "Resume updates" in shown
    for listed in ("memory_conversationbrief", "conversations_chat"):
        page = staff.get(reverse(f"admin:{listed}_changelist")).content.decode()
        assert "Updates paused" in page
    progress = staff.get(reverse("admin:memory_conversationbrief_progress", args=[chat.pk])).json()
    assert progress["is_over"]
    assert progress["sentence"].startswith("Updates are paused: version 1 stays as it is")
    assert "Updates are resumed." in press(staff, chat, "resume").content.decode()
    assert brief_of(chat).paused_at is None
    entries = LogEntry.objects.filter(object_id=str(chat.pk)).order_by("pk")
    assert [one.change_message for one in entries] == [
        "Paused updates of its memory.",
        "Resumed updates of its memory.",
    ]


def test_a_summary_is_cleared_after_a_confirmation(staff: Client, chat: Chat) -> None:
    asked = text_of(staff, "memory_conversationbrief_clear", chat.pk)
    assert "messages 1–4 can still be recalled" in asked
    assert "restore version 1" in asked
    assert brief_of(chat).version == 1
    told = press(staff, chat, "clear").content.decode()
    assert "The summary is empty." in told
    assert "cleared from 1" in " ".join(told.split())
    assert brief_of(chat).global_summary == ""
    assert "Clear summary…" not in told
    assert "There is no summary to clear." in press(staff, chat, "clear").content.decode()
    assert SummaryRevision.objects.get(chat=chat, version=2).created_by is not None


@pytest.mark.parametrize("what", ["pause", "resume", "clear"])
def test_it_needs_the_permission_to_change_briefs(chat: Chat, what: str) -> None:
    clerk = member_of_staff("clerk", "view_conversationbrief", "view_content")
    assert "Pause updates" not in text_of(clerk, BRIEF, chat.pk)
    assert press(clerk, chat, what).status_code == 403
    assert press(Client(), chat, what).redirect_chain[0][0].startswith("/admin/login/")
    assert (brief_of(chat).paused_at, brief_of(chat).version) == (None, 1)
    keeper = member_of_staff("keeper", "change_conversationbrief")
    assert press(keeper, chat, what).status_code == 200


def test_nothing_is_done_by_looking(staff: Client, chat: Chat) -> None:
    for what in ("pause", "resume"):
        url = reverse(f"admin:memory_conversationbrief_{what}", args=[chat.pk])
        assert staff.get(url).status_code == 405
    assert brief_of(chat).paused_at is None


def test_without_the_permission_to_read_no_title_is_shown(chat: Chat) -> None:
    Chat.objects.filter(pk=chat.pk).update(title="A heron")
    keeper = member_of_staff("keeper", "change_conversationbrief")
    assert "A heron" not in text_of(keeper, "memory_conversationbrief_clear", chat.pk)


def test_a_restored_version_is_kept_by_choice(staff: Client, chat: Chat) -> None:
    first = SummaryRevision.objects.get(chat=chat, version=1)
    form = {"action": "restore", "_selected_action": str(first.pk)}
    url = reverse("admin:memory_summaryrevision_changelist")
    asked = staff.post(url, form).content.decode()
    assert 'name="pause" value="yes" checked' in asked
    assert "What about the messages after 4?" in asked
    told = staff.post(url, {**form, "confirmed": "yes", "pause": "yes"}, follow=True).content.decode()
    assert "Version 1 was restored: it is now version 2, and in use. Updates are paused." in told
    staff.post(url, {**form, "confirmed": "yes", "pause": ""}, follow=True)
    assert (brief_of(chat).paused_at, brief_of(chat).version) == (None, 3)


def test_an_edit_by_hand_is_kept_by_choice(staff: Client, chat: Chat) -> None:
    url = reverse("admin:memory_conversationbrief_edit", args=[chat.pk])
    form = {"part-summary": "A heron.", "on_version": "1"}
    assert "What about the messages after 4?" in staff.post(url, form).content.decode()
    told = staff.post(url, {**form, "confirmed": "yes", "pause": "yes"}, follow=True).content.decode()
    assert "Saved as version 2, now in use. Updates are paused." in told


def test_tokens_are_counted_for_who_may_edit(staff: Client, chat: Chat) -> None:
    url = reverse("admin:memory_conversationbrief_count")
    assert staff.post(url, {"text": "One heron."}).json() == {"tokens": 4}
    assert staff.get(url).status_code == 405
    assert member_of_staff("clerk", "view_conversationbrief").post(url).status_code == 403


def test_what_is_said_of_a_version_that_changed_nothing_or_rolled_back(staff: Client, chat: Chat) -> None:
    add_revision(chat, 2, "An order is on its way.", through=6)
    SummaryRevision.objects.filter(chat=chat, version=2).update(parent=1)
    second = SummaryRevision.objects.get(chat=chat, version=2)
    same = "The summary did not change: nothing in these messages was new enough to displace what it holds."
    assert same in text_of(staff, "memory_summaryrevision_change", second.pk)
    assert same in text_of(staff, "memory_conversationbrief_diff", chat.pk, **{"from": 1, "to": 2})
    SummaryRevision.objects.filter(pk=second.pk).update(kind="retract")
    rolled = text_of(staff, "memory_summaryrevision_change", second.pk)
    assert "Rolled back because a message was edited or deleted." in rolled
    assert "The text is that of version 1" in rolled
    assert "The summary did not change." in rolled
