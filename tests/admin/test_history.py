"""The history of a summary: the list, the comparison of any two revisions, the buttons, and the estimates."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from chatmemory.llm import registry
from chatmemory.llm.protocol import Price
from conversations.models import Chat, ContentView
from memory.folding.fold import fold
from memory.folding.request import request_resummarize
from memory.models import ConversationBrief, SummaryRevision
from tests.admin.rows import EVIL_IN_PRE, add_revision, make_chat, member_of_staff, text_of

pytestmark = pytest.mark.django_db

BRIEF, DIFF = "memory_conversationbrief_change", "memory_conversationbrief_diff"


@pytest.fixture
def long(owner: User) -> Chat:
    """A chat with sixty revisions, the third of which has lost its texts."""
    chat = make_chat(owner, turns=60)
    for version in range(1, 61):
        add_revision(chat, version, f"The hall has number H{version:03}.", through=2 * version)
    gone = SummaryRevision.objects.filter(chat=chat, version=3)
    gone.update(global_summary="", retained={}, forgotten_at=timezone.now())
    return chat


def diff(client: Client, chat: Chat, older: object, newer: object) -> str:
    return text_of(client, DIFF, chat.pk, **{"from": older, "to": newer})


# The list


def test_revisions_are_listed_by_version_a_page_at_a_time(staff: Client, long: Chat) -> None:
    def shown(**query: Any) -> list[int]:
        response = staff.get(reverse(f"admin:{BRIEF}", args=[long.pk]), query)
        return [row["revision"].version for row in response.context["history"]["rows"]]

    assert shown() == list(range(60, 35, -1))
    assert shown(upto=35) == list(range(35, 10, -1))
    assert shown(upto=10) == list(range(25, 0, -1)), "the last page is a whole one"
    for odd in ("0", "-4", "x", "9" * 30, "²"):
        assert len(shown(upto=odd)) == 25
    page = text_of(staff, BRIEF, long.pk)
    assert "36–60 of 60" in page
    assert "?upto=35#history" in page


def test_a_revision_in_the_list_says_what_it_is(staff: Client, long: Chat) -> None:
    SummaryRevision.objects.filter(chat=long, version=60).update(
        kind="manual", cost_usd=Decimal("0.0125"), duration_ms=1234, degraded=True, is_wanting=True
    )
    page = text_of(staff, BRIEF, long.pk)
    for told in (
        "edited by hand",
        "from 59",
        "0.012500",
        "1,234 ms",
        "built-in summarizer",
        "low quality",
        "900 → 40",
        "50%",
    ):
        assert told in page
    assert f"{reverse('admin:conversations_chat_change', args=[long.pk])}?at=119" in page
    assert "text deleted" in text_of(staff, BRIEF, long.pk, upto=10)


def test_money_shows_to_those_who_may_see_it(long: Chat, owner: User) -> None:
    SummaryRevision.objects.filter(chat=long).update(cost_usd=Decimal("0.0125"))
    views = ("view_conversationbrief", "view_summaryrevision", "view_content", "change_conversationbrief")
    clerk, payer = member_of_staff("clerk", *views), member_of_staff("payer", *views, "view_cost")
    newest = SummaryRevision.objects.get(chat=long, version=60)
    pages: list[Callable[[Client], str]] = [
        lambda client: text_of(client, BRIEF, long.pk),
        lambda client: text_of(client, "memory_summaryrevision_change", newest.pk),
        lambda client: text_of(client, "memory_summaryrevision_changelist", chat__id__exact=long.pk),
        lambda client: client.post(
            reverse("admin:memory_conversationbrief_changelist"), asking(long, "rebuild")
        ).content.decode(),
    ]
    for page in pages:
        assert "0.0125" not in page(clerk)
        assert "USD" not in page(clerk)
        assert "Cost" in page(payer) or "cost" in page(payer)


def queries(client: Client, owner: User, count: int) -> dict[str, int]:
    """Return the number of queries of each page, for a chat with `count` revisions."""
    chat = make_chat(owner, turns=4)
    for version in range(1, count + 1):
        add_revision(chat, version, f"H{version:03}", through=2)
    middle = SummaryRevision.objects.get(chat=chat, version=3)
    pages: dict[str, tuple[list[Any], dict[str, int]]] = {
        BRIEF: ([chat.pk], {}),
        DIFF: ([chat.pk], {"from": 2, "to": 4}),
        "memory_summaryrevision_change": ([middle.pk], {}),
        "memory_conversationbrief_edit": ([chat.pk], {}),
        "memory_conversationbrief_progress": ([chat.pk], {}),
    }
    counts = {}
    for page, (args, query) in pages.items():
        text_of(client, page, *args, **query)
        with CaptureQueriesContext(connection) as captured:
            text_of(client, page, *args, **query)
        counts[page] = len(captured)
    return counts


def test_the_pages_cost_the_same_however_many_revisions_there_are(staff: Client, owner: User) -> None:
    few = queries(staff, owner, 5)
    assert queries(staff, owner, 300) == few
    assert max(few.values()) <= 14, few


# Comparing any two


def test_versions_of_two_policies_are_shown_one_below_the_other(staff: Client, long: Chat) -> None:
    SummaryRevision.objects.filter(chat=long, version=55).update(policy="interval")
    page = diff(staff, long, 7, 55)
    assert (
        "Replaced: made by another policy, Periodic summary (interval) instead of Rolling summary (chunked)."
        in page
    )
    assert page.index(">Version 55</h3>") < page.index(">Version 7</h3>")
    assert "<ins>" not in page
    assert "<del>" not in page


def test_any_two_are_compared_in_either_order(staff: Client, long: Chat) -> None:
    for older, newer in ((7, 55), (55, 7)):
        page = diff(staff, long, older, newer)
        assert "<del>H007</del><ins>H055</ins>" in page
        assert "−&nbsp;H007" in page
        assert "+&nbsp;H055" in page
        assert "The same number of tokens." in page
    SummaryRevision.objects.filter(chat=long, version=55).update(tokens_after=1390)
    assert "1,350 more tokens." in diff(staff, long, 7, 55)


def test_what_was_forgotten_and_what_never_was_says_so(staff: Client, long: Chat) -> None:
    page = diff(staff, long, 3, 9)
    assert "Version 3 has no text any more" in page
    assert "H009" not in page
    for odd in ({"from": 3, "to": 61}, {"from": 0, "to": 1}, {"from": 10**8, "to": 1}):
        response = staff.get(reverse(f"admin:{DIFF}", args=[long.pk]), odd)
        assert response.status_code == 404
        assert "has no such version" in response.content.decode()
    unclear: list[dict[str, str]] = [{}, {"from": "x", "to": "y"}, {"from": "9" * 40}]
    for query in unclear:
        assert "<del>H059</del><ins>H060</ins>" in text_of(staff, DIFF, long.pk, **query)
    nowhere = "01a1ff81-0000-7000-8000-000000000000"
    assert staff.get(reverse(f"admin:{DIFF}", args=[nowhere])).status_code == 404


def test_hostile_text_is_text(staff: Client, owner: User) -> None:
    chat = make_chat(owner, title=EVIL_IN_PRE)
    add_revision(chat, 1, EVIL_IN_PRE, through=2)
    add_revision(chat, 2, f"{EVIL_IN_PRE} HAT062 {EVIL_IN_PRE}", through=4)
    newest = SummaryRevision.objects.get(chat=chat, version=2)
    pages = [diff(staff, chat, 1, 2), text_of(staff, "memory_summaryrevision_change", newest.pk)]
    pages += [text_of(staff, "memory_conversationbrief_edit", chat.pk), text_of(staff, BRIEF, chat.pk)]
    for page in pages:
        assert "<script>alert" not in page
        assert "<img src=x" not in page
    assert escape(EVIL_IN_PRE) in pages[0]


def test_who_may_not_read_compares_numbers(long: Chat) -> None:
    clerk = member_of_staff("clerk", "view_conversationbrief")
    page = diff(clerk, long, 7, 55)
    assert "H007" not in page
    assert "version 55" in page
    assert "conversations.view_content" in page
    assert not ContentView.objects.exists()
    reader = member_of_staff("reader", "view_conversationbrief", "view_content")
    assert "H007" in diff(reader, long, 7, 55)
    (look,) = ContentView.objects.all()
    assert (look.page, look.chat_id) == ("memory_conversationbrief", long.pk)
    other = member_of_staff("other", "view_chat", "view_content")
    assert other.get(reverse(f"admin:{DIFF}", args=[long.pk])).status_code == 403


# A single revision


def test_a_revision_leads_to_its_neighbours_and_to_what_it_lost(staff: Client, owner: User) -> None:
    chat = make_chat(owner)
    rows = [add_revision(chat, version, "The hall.", through=2 * version) for version in (1, 2, 3)]
    SummaryRevision.objects.filter(pk=rows[1].pk).update(
        retained={"kept": [], "lost": ["hello 1", "12 May"], "share": 0.0}
    )
    page = text_of(staff, "memory_summaryrevision_change", rows[1].pk)
    for beside in (rows[0], rows[2]):
        assert reverse("admin:memory_summaryrevision_change", args=[beside.pk]) in page
    chat_url = reverse("admin:conversations_chat_change", args=[chat.pk])
    assert f'{chat_url}?at=3"' in page, "message 3 said so"
    assert f"{chat_url}?q=12+May" in page, "nobody of those folded did"
    assert "Compare with version 1" in page
    assert "from=2" in page, "editing begins from this one"


def test_a_rebuild_of_a_long_chat_has_what_it_lost_searched_for(staff: Client, long: Chat) -> None:
    SummaryRevision.objects.filter(chat=long, version=60).update(
        kind="rebuild", from_seq=1, through_seq=1000, retained={"kept": [], "lost": ["Hello 1"], "share": 0.0}
    )
    newest = SummaryRevision.objects.get(chat=long, version=60)
    assert "?q=Hello+1" in text_of(staff, "memory_summaryrevision_change", newest.pk)


# Estimates


def asking(chat: Chat, action: str, **fields: str) -> dict[str, str]:
    return {"action": action, "_selected_action": str(chat.pk), **fields}


def asked(client: Client, chat: Chat, action: str = "rebuild") -> str:
    url = reverse("admin:memory_conversationbrief_changelist")
    return client.post(url, asking(chat, action)).content.decode()


@pytest.fixture
def priced(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Price:
    """A summarizer with a price."""
    price = Price(Decimal(100), Decimal(50), Decimal(200))
    settings.SUMMARIZER = replace(settings.SUMMARIZER, price=price)
    monkeypatch.setattr(registry, "is_offline", lambda: False)
    return price


def test_a_rebuild_tells_first_what_it_will_take(staff: Client, owner: User) -> None:
    chat = make_chat(owner, turns=40)
    page = asked(staff, chat)
    assert "Estimate" in page
    for told in (
        "Turns to read",
        "37",
        "Summarizer calls",
        "nothing",
        "no summarizer call for this chat yet",
    ):
        assert told in page
    assert not ConversationBrief.objects.exclude(requested="").exists()


def test_it_tells_the_price_or_that_it_is_not_known(
    staff: Client, owner: User, priced: Price, settings: Any
) -> None:
    chat = make_chat(owner, turns=40)
    page = staff.post(reverse("admin:memory_conversationbrief_changelist"), asking(chat, "rebuild"))
    estimate = page.context["estimate"]
    assert estimate.cost_usd == (estimate.input_tokens * 100 + estimate.output_tokens * 200) / Decimal(10**6)
    assert f"${estimate.cost_usd:.4f}" in page.content.decode()
    settings.SUMMARIZER = replace(settings.SUMMARIZER, price=None)
    assert "price not known" in asked(staff, chat)


def test_of_several_chats_none_is_estimated(staff: Client, owner: User) -> None:
    chats = [make_chat(owner) for _ in range(2)]
    form = {"action": "rebuild", "_selected_action": [str(chat.pk) for chat in chats]}
    page = staff.post(reverse("admin:memory_conversationbrief_changelist"), form).content.decode()
    assert "Choose a single chat to see an estimate" in page


def test_where_nothing_is_to_be_read_nothing_is_spent(staff: Client, owner: User) -> None:
    assert "the summarizer is not called" in asked(staff, make_chat(owner, turns=2), "resummarize")


def test_afterwards_the_page_shows_how_far_it_is(staff: Client, owner: User) -> None:
    chat = make_chat(owner)
    url = reverse("admin:memory_conversationbrief_changelist")
    answer = staff.post(url, asking(chat, "rebuild", confirmed="yes"), follow=True)
    assert answer.redirect_chain == [(reverse(f"admin:{BRIEF}", args=[chat.pk]), 302)]
    page = answer.content.decode()
    assert "1 chat is being summarized in the background" in page
    assert "No worker is running" in page
    entry = LogEntry.objects.get(object_id=str(chat.pk))
    assert entry.change_message == "Requested: rebuild of its memory."


def test_restoring_tells_what_is_folded_again(staff: Client, owner: User) -> None:
    chat = make_chat(owner, turns=8)
    request_resummarize(chat, "update")
    assert fold(chat.pk, until=time.monotonic() + 60).outcome == "done"
    first = SummaryRevision.objects.get(chat=chat, version=1)
    form = {"action": "restore", "_selected_action": str(first.pk)}
    url = reverse("admin:memory_summaryrevision_changelist")
    assert "Nothing needs to be summarized again now." in staff.post(url, form).content.decode()
    SummaryRevision.objects.filter(pk=first.pk).update(through_seq=2)
    assert "will be summarized again when due" in staff.post(url, form).content.decode()
