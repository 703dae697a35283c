"""The pages of a prompt, of a memory with its versions, and of a version; restoring a version, and editing by hand."""

import re
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from conversations.models import Chat, ContentView, Message
from memory.admin.prompts import runs
from memory.folding.request import request_resummarize
from memory.models import ContextRecord, ConversationBrief, SummaryRevision
from tests.admin.rows import EVIL_IN_PRE, add_revision, make_chat, member_of_staff, queries, say, text_of
from tests.support.factories import brief_of
from tests.support.folds import run_fold
from tests.support.invariants import check_all

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]

PROMPT = "memory_contextrecord_change"
BRIEF, VERSION = "memory_conversationbrief_change", "memory_summaryrevision_change"
EDIT = "admin:memory_conversationbrief_edit"
HERON = "A heron stood in the reeds on 12 May."


def version_of(chat: Chat, number: int) -> SummaryRevision:
    return SummaryRevision.objects.get(chat=chat, version=number)


# A prompt


def test_prompt_page_shows_and_verifies_sent_prompt(staff: Client, remembered: Chat) -> None:
    record = ContextRecord.objects.get(reply__chat=remembered)
    html = text_of(staff, PROMPT, record.pk)
    for words in (
        "Verified: identical to the prompt that was sent",
        "And where do we sleep?",
        "The room is booked.",
        "Messages 1 to 4 are covered by the summary, version 2.",
        record.prompt_hash,
    ):
        assert words in html
    used = version_of(remembered, 2)
    assert f'href="{reverse(f"admin:{VERSION}", args=[used.pk])}">version 2</a>' in html


def test_a_prompt_that_cannot_be_rebuilt_says_so_and_shows_no_text(staff: Client, remembered: Chat) -> None:
    record = ContextRecord.objects.get(reply__chat=remembered)
    Message.objects.filter(replies=record.reply).update(content="Something else")
    html = text_of(staff, PROMPT, record.pk)
    assert "no longer be rebuilt" in html
    assert "Something else" not in html
    SummaryRevision.objects.all().delete()
    assert "version 2, gone" in text_of(staff, PROMPT, record.pk)


def test_prompt_page_marks_excerpts_and_links_neighbours(staff: Client, owner: User) -> None:
    chat = make_chat(owner, turns=1, said="The hostel is called Zeppelin and the door code is 4711")
    for number in range(12):
        say(chat, f"Note {number}: " + "harbour lamps " * 200, "lamps " * 200)
    last = say(chat, "What is the door code of the Zeppelin hostel?", "4711")
    html = text_of(staff, PROMPT, last.pk)
    assert "Brought back by recall" in html
    assert "<mark>Zeppelin</mark>" in html
    before = Message.objects.get(chat=chat, seq=last.seq - 2)
    assert reverse(f"admin:{PROMPT}", args=[before.pk]) in html


def test_runs_of_messages() -> None:
    assert runs([5, 1, 2, 3, 9, 3]) == [(1, 3), (5, 5), (9, 9)]
    assert runs([]) == []


# A memory and its versions


def test_a_memory_shows_its_text_its_work_and_its_newest_versions(staff: Client, remembered: Chat) -> None:
    SummaryRevision.objects.filter(chat=remembered, version=2).update(
        kind="manual", cost_usd=Decimal("0.0125"), duration_ms=1234, degraded=True, is_wanting=True
    )
    SummaryRevision.objects.filter(chat=remembered, version=1).update(forgotten_at=timezone.now())
    ConversationBrief.objects.filter(chat=remembered).update(
        last_error={"code": "upstream_timeout", "attempt": 3, "message": "It said: <b>heron</b>"},
        attempts=3,
        due=True,
        degraded=True,
        lease_owner="host:1:ab",
        lease_expires_at=timezone.now(),
    )
    html = text_of(staff, BRIEF, remembered.pk)
    for words in (
        *("The room is booked.", "The model did not answer in time.", "It said: &lt;b&gt;heron", "host:1:ab"),
        *("✎ edited by hand", "from 1", "0.012500", "1,234 ms", "built-in summarizer", "low quality"),
        *("900 → 40", "50%", "text deleted", f"?chat__id__exact={remembered.pk}"),
    ):
        assert words in html, words
    for version in (1, 2):
        assert reverse(f"admin:{VERSION}", args=[version_of(remembered, version).pk]) in html
    clerk = member_of_staff("clerk", "view_conversationbrief", "view_summaryrevision", "view_content")
    for name, pk in ((BRIEF, remembered.pk), (VERSION, version_of(remembered, 2).pk)):
        assert "0.0125" not in text_of(clerk, name, pk)
        assert "0.0125" in text_of(staff, name, pk)
    listed = text_of(clerk, "memory_summaryrevision_changelist", chat__id__exact=remembered.pk)
    assert "$" not in listed


def test_pages_of_memory_cost_the_same_however_many_versions(staff: Client, owner: User) -> None:
    def costs(versions: int) -> list[int]:
        chat = make_chat(owner, turns=4)
        for version in range(1, versions + 1):
            add_revision(chat, version, f"H{version:03}", through=2)
        pages = ((BRIEF, chat.pk), (VERSION, version_of(chat, 3).pk))
        return [len(queries(partial(text_of, staff, *page))) for page in pages]

    costs(4)  # loads what is looked up once per process
    assert costs(40) == costs(6)


# A version


def test_version_page_diffs_against_any_version(staff: Client, remembered: Chat) -> None:
    add_revision(remembered, 3, "The garden is booked, number HAT062.", through=6)
    second, third = version_of(remembered, 2), version_of(remembered, 3)
    html = text_of(staff, VERSION, second.pk)
    assert "The <del>hall </del><ins>room </ins>is booked." in html
    assert f"{reverse('admin:conversations_chat_change', args=[remembered.pk])}?at=3" in html
    html = text_of(staff, VERSION, third.pk, against=1)
    assert "Changes from version 1" in html
    assert "<del>hall </del><ins>garden </ins>" in html
    assert "+&nbsp;HAT062" in html
    assert "This chat has no version 9." in text_of(staff, VERSION, third.pk, against=9)
    for odd in ("x", "", "-1", "9" * 30):
        assert "Changes from version 2" in text_of(staff, VERSION, third.pk, against=odd)
    assert "This is the first version." in text_of(staff, VERSION, version_of(remembered, 1).pk)
    SummaryRevision.objects.filter(pk=third.pk).update(policy="card")
    assert "Replaced: made by another policy" in text_of(staff, VERSION, third.pk)
    SummaryRevision.objects.filter(pk=third.pk).update(forgotten_at=timezone.now())
    html = text_of(staff, VERSION, third.pk)
    assert "there is nothing to compare" in html
    assert "cm-diff" not in html
    assert "<h2>Text</h2>" not in html


def test_version_page_links_lost_facts_to_trace(staff: Client, remembered: Chat) -> None:
    faults = [
        {"fault": "short", "tokens": 9, "expected": 480},
        {"fault": "known_lost", "kept": 1, "of": 4, "lost": ["HAT062"]},
        {"fault": "known_lost", "kept": 1, "of": 4, "lost": ["3RK2T9"]},
    ]
    retained = {"kept": ["Marta"], "lost": ["Hello 1", "12 May"], "share": 0.5}
    SummaryRevision.objects.filter(chat=remembered, version=2).update(
        soft_faults=faults, is_wanting=True, retained=retained
    )
    html = text_of(staff, VERSION, version_of(remembered, 2).pk)
    assert "far too short for what it replaces; much of what was known is gone." in html
    for words in ("HAT062", "3RK2T9", "Marta", "trace/?text=Hello%201", "trace/?text=12%20May"):
        assert words in html


# Restoring


def restore(client: Client, version: SummaryRevision, **form: str) -> Any:
    return client.post(reverse("admin:memory_summaryrevision_restore", args=[version.pk]), form, follow=True)


def test_a_version_is_restored_and_may_stay_as_it_is(staff: Client, folded_chat: Chat) -> None:
    first = version_of(folded_chat, 1)
    assert "What about the messages after" in text_of(staff, VERSION, first.pk)
    answer = restore(staff, first, pause="yes")
    assert answer.redirect_chain == [(reverse(f"admin:{BRIEF}", args=[folded_chat.pk]), 302)]
    assert "Version 1 was restored: it is now version 3, and in use. Updates are paused." in answer.content.decode()
    last = version_of(folded_chat, 3)
    assert (last.kind, last.parent, last.created_by) == ("restore", 1, User.objects.get(username="boss"))
    assert LogEntry.objects.get(object_id=str(first.pk)).change_message == "Restored as version 3."
    assert "Updates are paused" not in restore(staff, first).content.decode().split("in use.")[1][:60]
    check_all()


def test_the_last_update_is_undone_by_one_button(staff: Client, folded_chat: Chat, owner: User) -> None:
    html = staff.get(reverse(f"admin:{BRIEF}", args=[folded_chat.pk])).content.decode()
    url = reverse("admin:memory_summaryrevision_restore", args=[version_of(folded_chat, 1).pk])
    assert re.search(rf'action="{url}".*?name="pause" value="yes".*?Undo last update', html, re.DOTALL)
    restore(staff, version_of(folded_chat, 1), pause="yes")
    assert "Undo last update" not in text_of(staff, BRIEF, folded_chat.pk)
    once = make_chat(owner)
    add_revision(once, 1, "The hall is booked.", through=2)
    assert "Undo last update" not in text_of(staff, BRIEF, once.pk)


def test_restore_refused_shows_reason_and_needs_permission(staff: Client, folded_chat: Chat) -> None:
    first = version_of(folded_chat, 1)
    clerk = member_of_staff("clerk", "view_summaryrevision", "view_content")
    assert "Restore…" not in text_of(clerk, VERSION, first.pk)
    assert restore(clerk, first).status_code == 403
    SummaryRevision.objects.filter(pk=first.pk).update(forgotten_at=first.created_at)
    assert "Restore…" not in text_of(staff, VERSION, first.pk)
    assert "The texts of version 1 were deleted." in restore(staff, first).content.decode()
    assert brief_of(folded_chat).version == 2
    keeper = member_of_staff("keeper", "change_conversationbrief")
    assert restore(keeper, version_of(folded_chat, 2)).redirect_chain == [("/admin/", 302)]
    assert brief_of(folded_chat).version == 3


# Editing by hand


@pytest.fixture
def folded_chat(owner: User) -> Chat:
    """A chat whose memory has two versions."""
    chat = make_chat(owner, turns=30, said="The order is HAT062, Marta, for 12 May")
    for _ in range(2):
        request_resummarize(chat, "rebuild")
        run_fold(chat)
    assert brief_of(chat).head == 2
    return chat


def form_of(client: Client, chat: Chat) -> dict[str, str]:
    """Return the fields of the form as a browser would submit them unchanged."""
    response = client.get(reverse(EDIT, args=[chat.pk]))
    assert response.status_code == 200
    context = response.context
    sent = {f"part-{part.name}": text for part, text in context["fields"]}
    return sent | {"on_version": str(context["brief"].head)}


def send(client: Client, chat: Chat, form: dict[str, str], **more: str) -> Any:
    return client.post(reverse(EDIT, args=[chat.pk]), {**form, **more}, follow=True)


def test_edit_form_stores_memory_and_shows_changes(staff: Client, folded_chat: Chat) -> None:
    form = form_of(staff, folded_chat)
    assert form == {"part-summary": brief_of(folded_chat).global_summary, "on_version": "2"}
    answer = send(staff, folded_chat, form, **{"part-summary": HERON})
    last = version_of(folded_chat, 3)
    assert answer.redirect_chain == [(reverse(f"admin:{VERSION}", args=[last.pk]), 302)]
    page = answer.content.decode()
    for words in ("Saved as version 3, now in use.", "<ins>", "<del>", "−&nbsp;HAT062"):
        assert words in page
    assert (last.kind, last.parent, last.global_summary) == ("manual", 2, HERON)
    entry = LogEntry.objects.get(object_id=str(folded_chat.pk))
    assert (entry.user, entry.change_message) == (last.created_by, "Edited by hand: version 3, from 2.")
    again = send(staff, folded_chat, form, **{"part-summary": HERON})
    assert (again.status_code, brief_of(folded_chat).version) == (409, 3), "sent twice it is saved once"
    check_all()


def test_a_form_that_is_out_of_date_shows_both(staff: Client, folded_chat: Chat) -> None:
    mine, other = form_of(staff, folded_chat), form_of(staff, folded_chat)
    send(staff, folded_chat, other, **{"part-summary": "Somebody else was here."})
    answer = send(staff, folded_chat, mine, **{"part-summary": HERON})
    assert answer.status_code == 409
    page = answer.content.decode()
    assert "another version is current now" in page
    assert "Somebody else was here." in page
    assert answer.context["fields"][0][1] == HERON
    assert 'name="on_version" value="3"' in page
    send(staff, folded_chat, mine, **{"part-summary": HERON, "on_version": "3", "pause": "yes"})
    brief = brief_of(folded_chat)
    assert (brief.version, brief.global_summary, brief.paused_at is not None) == (4, HERON, True)


def test_edit_form_shows_error_at_field(staff: Client, folded_chat: Chat) -> None:
    form = form_of(staff, folded_chat)
    answer = send(staff, folded_chat, form, **{"part-summary": "heron " * 600})
    assert answer.status_code == 400
    assert "The summary has 1,200 tokens; the limit is 500." in answer.content.decode()
    assert 'aria-invalid="true"' in answer.content.decode()
    for text, why in (
        (" ", "This would leave the memory empty"),
        (form["part-summary"], "Nothing was changed."),
    ):
        assert why in send(staff, folded_chat, form, **{"part-summary": text}).content.decode()
    hostile = f"</textarea>{EVIL_IN_PRE}{HERON}"
    for text in (hostile, hostile * 30):
        page = send(staff, folded_chat, form_of(staff, folded_chat), **{"part-summary": text}).content.decode()
        assert "<script>alert" not in page
        assert escape(EVIL_IN_PRE) in page


def test_editing_takes_the_rights_to_read_and_to_change_and_each_look_is_recorded(
    boss: User, folded_chat: Chat
) -> None:
    reader = member_of_staff("reader", "view_content", "view_summaryrevision", "view_conversationbrief")
    url = reverse(EDIT, args=[folded_chat.pk])
    assert url not in text_of(reader, BRIEF, folded_chat.pk)
    assert url not in text_of(reader, VERSION, version_of(folded_chat, 2).pk)
    looks = ContentView.objects.count()
    forged = Client(enforce_csrf_checks=True)
    forged.force_login(boss)
    changer = member_of_staff("changer", "change_conversationbrief")
    for refused in (reader, changer, forged):
        assert refused.post(url, {"part-summary": HERON, "on_version": "2"}).status_code == 403
    assert changer.get(url).status_code == 403
    assert (brief_of(folded_chat).version, ContentView.objects.count()) == (2, looks)
    keeper = member_of_staff("keeper", "change_conversationbrief", "view_content")
    keeper.post(url, form_of(keeper, folded_chat) | {"part-summary": HERON})
    assert (brief_of(folded_chat).version, ContentView.objects.count()) == (3, looks + 1)


def test_edit_form_without_memory_explains(staff: Client, owner: User) -> None:
    answer = staff.get(reverse(EDIT, args=[make_chat(owner).pk]), follow=True)
    assert "There is no summary to edit yet" in answer.content.decode()
    nowhere = "01a1ff81-0000-7000-8000-000000000000"
    assert staff.get(reverse(EDIT, args=[nowhere])).status_code == 404
