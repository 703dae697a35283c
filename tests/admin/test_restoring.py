"""Restoring older memory in the admin, and how pages label restored, rebuilt and defective revisions."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from conversations.models import Chat
from memory.folding.fold import fold
from memory.folding.request import request_resummarize
from memory.models import ConversationBrief, SummaryRevision
from tests.admin.rows import make_chat, member_of_staff, text_of
from tests.support.invariants import check_all

pytestmark = pytest.mark.django_db

LIST = "admin:memory_summaryrevision_changelist"


@pytest.fixture
def folded(owner: User) -> Chat:
    """A chat whose memory has two versions: a fold, and a rebuild of the same turns."""
    chat = make_chat(owner)
    for mode in ("update", "rebuild"):
        request_resummarize(chat, "rebuild" if mode == "rebuild" else "update")
        assert fold(chat.pk, until=time.monotonic() + 60).outcome == "done"
    return chat


def revision(chat: Chat, version: int) -> SummaryRevision:
    return SummaryRevision.objects.get(chat=chat, version=version)


def act(client: Client, *revisions: SummaryRevision, **fields: Any) -> str:
    form = {"action": "restore", "_selected_action": [str(one.pk) for one in revisions], **fields}
    return client.post(reverse(LIST), form, follow=True).content.decode()


def test_a_revision_is_restored_after_a_confirmation(staff: Client, folded: Chat) -> None:
    first = revision(folded, 1)
    page = text_of(staff, "memory_summaryrevision_change", first.pk)
    assert "Restore…" in page
    asked = act(staff, first)
    assert "Restore <b>version 1</b>" in asked
    assert ConversationBrief.objects.get(chat=folded).version == 2
    told = act(staff, first, confirmed="yes")
    assert "Version 1 was restored: it is now version 3, and in use." in told
    last = revision(folded, 3)
    assert (last.kind, last.parent) == ("restore", 1)
    assert last.created_by is not None
    entry = LogEntry.objects.get(object_id=str(first.pk))
    assert (entry.user, entry.change_message) == (last.created_by, "Restored as version 3.")
    assert str(last.created_by) in text_of(staff, "memory_summaryrevision_change", last.pk)
    check_all()


def test_one_at_a_time(staff: Client, folded: Chat) -> None:
    told = act(staff, revision(folded, 1), revision(folded, 2), confirmed="yes")
    assert "Choose one version to restore." in told
    assert ConversationBrief.objects.get(chat=folded).version == 2


def test_what_cannot_be_restored_says_why(staff: Client, folded: Chat) -> None:
    first = revision(folded, 1)
    SummaryRevision.objects.filter(pk=first.pk).update(forgotten_at=first.created_at)
    assert "Restore…" not in text_of(staff, "memory_summaryrevision_change", first.pk)
    assert "The texts of version 1 were deleted." in act(staff, first, confirmed="yes")
    assert ConversationBrief.objects.get(chat=folded).version == 2


def test_restoring_needs_the_permission_to_change_briefs(folded: Chat) -> None:
    clerk = member_of_staff("clerk", "view_summaryrevision", "view_content")
    first = revision(folded, 1)
    assert "Restore…" not in text_of(clerk, "memory_summaryrevision_change", first.pk)
    act(clerk, first, confirmed="yes")
    assert ConversationBrief.objects.get(chat=folded).version == 2
    keeper = member_of_staff("keeper", "view_summaryrevision", "change_conversationbrief")
    assert "Version 1 was restored" in act(keeper, first, confirmed="yes")


WANTING = [
    {"fault": "short", "tokens": 9, "expected": 480},
    {"fault": "known_lost", "kept": 1, "of": 4, "lost": ["HAT062"]},
    {"fault": "known_lost", "kept": 1, "of": 4, "lost": ["3RK2T9"]},
]
DRIFT = {
    "against": 1,
    "share": {"before": 0.25, "after": 0.5},
    "lost": ["HAT062"],
    "only_before": ["HAT039"],
    "added": {"before": ["$999"], "after": []},
}


def test_what_is_wanting_shows_and_is_found_in_all_chats(staff: Client, folded: Chat, owner: User) -> None:
    make_chat(owner)
    SummaryRevision.objects.filter(chat=folded, version=1).update(soft_faults=WANTING, is_wanting=True)
    page = text_of(staff, "memory_summaryrevision_change", revision(folded, 1).pk)
    assert "far too short for what it replaces; much of what was known is gone." in page
    assert "HAT062" in page
    assert "3RK2T9" in page
    listed = staff.get(reverse(LIST), {"is_wanting__exact": "1"})
    assert [row.version for row in listed.context["cl"].result_list] == [1]
    assert "is_wanting__exact=1" in staff.get(reverse(LIST)).content.decode()
    narrowed = staff.get(reverse(LIST), {"chat__id__exact": str(folded.pk), "is_wanting__exact": "0"})
    assert [row.version for row in narrowed.context["cl"].result_list] == [2]


def test_the_drift_that_a_rebuild_found_shows(staff: Client, folded: Chat) -> None:
    SummaryRevision.objects.filter(chat=folded, version=2).update(drift=DRIFT)
    newest = revision(folded, 2)
    page = text_of(staff, "memory_summaryrevision_change", newest.pk)
    for told in ("had 25%", "has 50%", "HAT062", "HAT039", "$999"):
        assert told in page
    clerk = member_of_staff("clerk", "view_summaryrevision")
    hidden = text_of(clerk, "memory_summaryrevision_change", newest.pk)
    assert "had 25%" in hidden
    for said in ("HAT062", "HAT039", "$999"):
        assert said not in hidden


def test_how_far_a_rebuild_is_shows(staff: Client, folded: Chat) -> None:
    def shown() -> str:
        return text_of(staff, "memory_conversationbrief_change", folded.pk)

    request_resummarize(folded, "rebuild")
    assert "queued" in shown()
