"""Editing memory by hand in the admin: permissions, the form, the preview, and changes made in between."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from conversations import chat_lifecycle
from conversations.models import Chat, ContentView
from memory.folding.fold import fold
from memory.folding.request import request_resummarize
from memory.models import ConversationBrief, SummaryRevision
from memory.policies import POLICIES
from tests.admin.rows import EVIL_IN_PRE, make_chat, member_of_staff, text_of
from tests.support.exhaustive import first_of
from tests.support.invariants import check_all

pytestmark = pytest.mark.django_db

EDIT, BRIEF = "admin:memory_conversationbrief_edit", "admin:memory_conversationbrief_change"
HERON = "A heron stood in the reeds on 12 May."


def folded_by(owner: User, policy: str) -> Chat:
    """Make a chat whose memory has two versions by `policy`."""
    chat = make_chat(owner, turns=30, said="The order is HAT062, Marta, for 12 May")
    chat_lifecycle.update_chat(chat, {"policy": policy})
    for _ in range(2):
        request_resummarize(chat, "rebuild")
        while fold(chat.pk, until=time.monotonic() + 60).outcome == "more":
            pass
    assert brief_of(chat).head == 2
    return chat


@pytest.fixture
def folded(owner: User) -> Chat:
    return folded_by(owner, "chunked")


def brief_of(chat: Chat) -> ConversationBrief:
    return ConversationBrief.objects.get(chat=chat)


def form_of(client: Client, chat: Chat, **query: Any) -> dict[str, str]:
    """Return the fields of the form as a browser would submit them unchanged."""
    response = client.get(reverse(EDIT, args=[chat.pk]), query)
    assert response.status_code == 200
    context = response.context
    sent = {f"part-{one['part'].name}": one["text"] for one in context["fields"]}
    sent["on_version"] = str(context["draft"].in_use)
    return sent | ({"from": str(context["draft"].base.version)} if context["is_older"] else {})


def send(client: Client, chat: Chat, form: dict[str, str], **more: str) -> Any:
    return client.post(reverse(EDIT, args=[chat.pk]), {**form, **more}, follow=True)


def test_what_is_written_is_shown_first_and_then_in_use(staff: Client, folded: Chat) -> None:
    before = brief_of(folded).global_summary
    form = form_of(staff, folded)
    assert form == {"part-summary": before, "on_version": "2"}
    form["part-summary"] = HERON
    asked = send(staff, folded, form)
    page = asked.content.decode()
    assert "<ins>" in page
    assert "<del>" in page
    assert "−&nbsp;HAT062" in page
    assert 'name="confirmed" value="yes">Save<' in page
    assert brief_of(folded).version == 2
    again = send(staff, folded, form, again="yes")
    assert again.context["fields"][0]["text"] == HERON
    done = send(staff, folded, form, confirmed="yes")
    assert done.redirect_chain == [(reverse(BRIEF, args=[folded.pk]), 302)]
    assert "Saved as version 3, now in use." in done.content.decode()
    last = SummaryRevision.objects.get(chat=folded, version=3)
    assert (last.kind, last.parent, last.global_summary) == ("manual", 2, HERON)
    entry = LogEntry.objects.get(object_id=str(folded.pk))
    assert (entry.user, entry.change_message) == (
        last.created_by,
        "Edited by hand: version 3, from version 2.",
    )
    assert HERON not in entry.change_message + entry.object_repr
    check_all()


@pytest.mark.parametrize("policy", first_of(POLICIES, 2))
def test_every_policy_has_a_form_that_saves(staff: Client, owner: User, policy: str) -> None:
    chat = folded_by(owner, policy)
    form = form_of(staff, chat)
    name, text = next((name, text) for name, text in form.items() if name.startswith("part-") and text)
    form[name] = text.replace("HAT062", "HAT064")
    assert form[name] != text
    assert "Saved as version 3" in send(staff, chat, form, confirmed="yes").content.decode()
    brief = brief_of(chat)
    assert "HAT064" in str((brief.global_summary, brief.state))
    check_all()


def test_sent_twice_it_is_saved_once(staff: Client, folded: Chat) -> None:
    form = form_of(staff, folded) | {"part-summary": HERON, "confirmed": "yes"}
    send(staff, folded, form)
    second = send(staff, folded, form)
    assert second.status_code == 409
    assert brief_of(folded).version == 3
    assert LogEntry.objects.count() == 1


def test_a_form_that_is_out_of_date_shows_both(staff: Client, folded: Chat) -> None:
    mine, other = form_of(staff, folded), form_of(staff, folded)
    send(staff, folded, other, **{"part-summary": "Somebody else was here.", "confirmed": "yes"})
    for confirmed in ({}, {"confirmed": "yes"}):
        answer = send(staff, folded, mine, **{"part-summary": HERON}, **confirmed)
        assert answer.status_code == 409
        page = answer.content.decode()
        assert "Version 3 is current now; it was 2 when you began." in page
        assert "Somebody else was here." in page
        assert answer.context["fields"][0]["text"] == HERON
        assert 'name="on_version" value="3"' in page
    assert brief_of(folded).version == 3
    send(staff, folded, mine, **{"part-summary": HERON, "on_version": "3", "confirmed": "yes"})
    assert (brief_of(folded).version, brief_of(folded).global_summary) == (4, HERON)


def test_an_older_one_is_edited_from_its_own_page(staff: Client, folded: Chat) -> None:
    first = SummaryRevision.objects.get(chat=folded, version=1)
    link = f"{reverse(EDIT, args=[folded.pk])}?from=1"
    assert link in text_of(staff, "memory_summaryrevision_change", first.pk)
    form = form_of(staff, folded, **{"from": 1})
    assert form["from"] == "1"
    assert "later ones are summarized again" in staff.get(link).content.decode()
    send(staff, folded, form, **{"part-summary": HERON, "confirmed": "yes"})
    assert SummaryRevision.objects.get(chat=folded, version=3).parent == 1


def test_what_cannot_be_kept_is_said_at_its_field(staff: Client, folded: Chat) -> None:
    form = form_of(staff, folded)
    answer = send(staff, folded, form, **{"part-summary": "heron " * 600, "confirmed": "yes"})
    assert answer.status_code == 400
    assert "The summary has 1,200 tokens; the limit is 500." in answer.content.decode()
    assert 'aria-invalid="true"' in answer.content.decode()
    for text, why in (
        (" ", "This would leave the memory empty"),
        (form["part-summary"], "Nothing was changed."),
    ):
        for confirmed in ({}, {"confirmed": "yes"}):
            assert why in send(staff, folded, form, **{"part-summary": text}, **confirmed).content.decode()
    assert brief_of(folded).version == 2


def test_hostile_text_comes_back_as_text(staff: Client, folded: Chat) -> None:
    hostile = f"</textarea>{EVIL_IN_PRE}{HERON}"
    for form in (
        {"part-summary": hostile},
        {"part-summary": hostile * 30},
        {"part-summary": hostile, "confirmed": "yes"},
    ):
        page = send(staff, folded, form_of(staff, folded) | form).content.decode()
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert escape(EVIL_IN_PRE) in page


@pytest.mark.parametrize(
    "permissions",
    first_of(
        [
            ("view_conversationbrief",),
            ("view_conversationbrief", "view_content"),
            ("change_conversationbrief",),
        ]
    ),
)
def test_it_takes_the_right_to_read_and_the_right_to_change(
    folded: Chat, permissions: tuple[str, ...]
) -> None:
    clerk = member_of_staff("clerk", *permissions, "view_summaryrevision")
    url = reverse(EDIT, args=[folded.pk])
    assert url not in text_of(clerk, "memory_conversationbrief_change", folded.pk)
    newest = SummaryRevision.objects.get(chat=folded, version=2)
    assert url not in text_of(clerk, "memory_summaryrevision_change", newest.pk)
    looks = ContentView.objects.count()
    assert clerk.get(url).status_code == 403
    assert clerk.post(url, {"part-summary": HERON, "on_version": "2", "confirmed": "yes"}).status_code == 403
    assert (brief_of(folded).version, ContentView.objects.count()) == (2, looks)


def test_both_rights_are_enough_and_each_look_is_recorded(folded: Chat) -> None:
    keeper = member_of_staff("keeper", "change_conversationbrief", "view_content")
    assert reverse(EDIT, args=[folded.pk]) in text_of(keeper, "memory_conversationbrief_change", folded.pk)
    looks = ContentView.objects.count()
    form = form_of(keeper, folded)
    assert ContentView.objects.count() == looks + 1
    assert (
        "Saved as version 3"
        in send(keeper, folded, form, **{"part-summary": HERON, "confirmed": "yes"}).content.decode()
    )


def test_a_form_from_another_site_is_refused(boss: User, folded: Chat) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(boss)
    form = {"part-summary": HERON, "on_version": "2", "confirmed": "yes"}
    assert client.post(reverse(EDIT, args=[folded.pk]), form).status_code == 403
    assert client.get(reverse(EDIT, args=[folded.pk]), form).status_code == 200
    assert brief_of(folded).version == 2


def test_where_there_is_nothing_to_edit_it_says_so(staff: Client, owner: User, folded: Chat) -> None:
    answer = staff.get(reverse(EDIT, args=[make_chat(owner).pk]), follow=True)
    assert "There is no summary to edit yet" in answer.content.decode()
    SummaryRevision.objects.filter(chat=folded, version=1).update(forgotten_at=timezone.now())
    for version, why in ((1, "The texts of version 1 were deleted."), (9, "has no such version")):
        assert (
            why in staff.get(reverse(EDIT, args=[folded.pk]), {"from": version}, follow=True).content.decode()
        )
    nowhere = "01a1ff81-0000-7000-8000-000000000000"
    assert staff.get(reverse(EDIT, args=[nowhere])).status_code == 404
