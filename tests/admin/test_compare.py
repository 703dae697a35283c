"""Comparing policies in the admin: the permissions, what it starts, its progress, and the result shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from django_q.models import OrmQ

from chatmemory.database.ids import new_id
from conversations import chat_lifecycle
from conversations.models import Chat
from memory import tasks
from memory.lab.comparison import compare as comparison
from memory.models import Comparing, Comparison
from memory.policies import POLICIES
from tests.admin.rows import EVIL, add_comparison, make_chat, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def chat(owner: User) -> Chat:
    return make_chat(owner)


def page_of(chat: Chat) -> str:
    return reverse("admin:memory_comparison_compare", args=[chat.pk])


def clerk(*permissions: str) -> Client:
    user = User.objects.create_user("clerk", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def start(client: Client, chat: Chat, **form: Any) -> Any:
    return client.post(page_of(chat), {"policies": ["chunked"], **form}, follow=True)


# From the chat to the result


@pytest.mark.slow
@pytest.mark.processes
def test_from_the_chat_to_the_numbers(staff: Client, chat: Chat, boss: User) -> None:
    for page in ("conversations_chat", "memory_conversationbrief"):
        assert f'href="{page_of(chat)}"' in text_of(staff, f"{page}_change", chat.pk)
    form = staff.get(page_of(chat)).content.decode()
    assert re.findall(r'name="policies" value="(\w+)"[^>]* checked', form) == ["chunked", "hierarchical"]

    waiting = start(staff, chat, policies=["chunked", "interval"], budget="900").content.decode()
    (asked,) = Comparison.objects.all()
    assert (asked.policies, asked.budget, asked.requested_by) == (["chunked", "interval"], 900, boss)
    assert "Waiting for a worker" in waiting
    for state in ("Waiting, 1 of 2 policies done", "Done"):
        (queued,) = OrmQ.objects.all()
        assert (queued.func(), queued.task["args"][0]) == ("memory.tasks.compare_task", str(asked.pk))
        OrmQ.objects.all().delete()
        tasks.compare_task(*queued.task["args"])
        page = text_of(staff, "memory_comparison_change", asked.pk)
        assert f"<dd>{state}</dd>" in page
        assert "At 6 turns, " in page  # a verdict as soon as one policy is done

    done = text_of(staff, "memory_comparison_change", asked.pk)
    for title in ("What the model is sent", "What the summarizer does", "What it costs", "What is kept"):
        assert f"<caption>{title}</caption>" in done
    assert re.search(
        r'<th scope="row">chunked <span[^>]*>in use</span></th><td class="cm-number">6</td>', done
    )
    assert "900 tokens" in done
    assert done.count('<polyline points="') == 6  # two policies and sending everything, warm and cold
    assert "× cost of sending everything" in done
    assert "matplotlib" not in done
    listed = staff.get(page_of(chat)).content.decode()
    assert reverse("admin:memory_comparison_change", args=[asked.pk]) in listed
    assert LogEntry.objects.get().change_message == "Requested: a comparison of policies."


# While it runs


def refreshes(html: str) -> bool:
    return '<div id="cm-comparison" data-refresh="2">' in html and "chatmemory/comparison.js" in html


@pytest.mark.parametrize(
    ("state", "goes_on"), [("waiting", True), ("running", True), ("done", False), ("failed", False)]
)
def test_the_page_refreshes_itself_until_it_is_over(
    state: str, goes_on: bool, staff: Client, chat: Chat
) -> None:
    result = None if goes_on else {"sheets": [], "note": ""}
    found = add_comparison(chat, state=state, progress={"chunked": 4}, error="It broke.", result=result)
    html = text_of(staff, "memory_comparison_change", found.pk)
    assert refreshes(html) == goes_on
    assert ("4 of 6" in html) == (state == "running")
    assert ("waiting</span>" in html) == goes_on
    assert ("It failed. It broke." in html) == (state == "failed")


def test_one_under_way_is_shown_and_no_other_is_started(staff: Client, chat: Chat) -> None:
    start(staff, chat)
    again = start(staff, chat, policies=["interval"])
    assert Comparison.objects.get().policies == ["chunked"]
    assert OrmQ.objects.count() == 1
    assert "A comparison of this chat is under way." in again.content.decode()
    assert again.redirect_chain[-1][0].endswith(f"{Comparison.objects.get().pk}/change/")


def test_only_the_newest_turns_were_played(staff: Client, chat: Chat) -> None:
    found = add_comparison(chat, turns=500, of_turns=1234)
    assert "the newest 500 of 1,234" in text_of(staff, "memory_comparison_change", found.pk)


# Labels and sentences


def test_the_verdict_comes_first_and_the_plot_has_a_table(staff: Client, chat: Chat) -> None:
    html = text_of(staff, "memory_comparison_change", add_comparison(chat).pk)
    said = "At 6 turns, chunked is cheapest: $7.00 against $17.00 for sending everything. From turn 3 on, "
    assert said in html
    assert (
        html.index(said)
        < html.index("<h2>Comparison</h2>")
        < html.index("At a glance")
        < html.index("<polyline")
    )
    assert re.search(r'<td class="cm-number">\$7.00</td><td class="cm-number">0.41 ×</td>', html)
    assert 'aria-label="After 6 turns: chunked $7.00, interval $7.00, everything $17.00."' in html
    assert "chunked is cheaper from turn 3 on." in html
    assert '<th scope="row" class="cm-number">6</th><td class="cm-number">$7.00</td>' in html


def test_one_that_was_made_when_all_policies_were_one_task_is_still_to_be_read(
    staff: Client, chat: Chat
) -> None:
    now = timezone.now()
    known = add_comparison(chat).result
    assert known is not None
    old = {"sheets": known["sheets"], "note": "As it was.", "has_plot": True}
    html = text_of(staff, "memory_comparison_change", _old(chat, result=old, started_at=now, finished_at=now))
    for said in ("<caption>What it costs</caption>", "As it was.", "<dd>Done</dd>", "0 seconds"):
        assert said in html
    assert "<polyline" not in html
    broken = _old(chat, state=Comparing.FAILED, result=None, error="It took longer than 90 seconds.")
    html = text_of(staff, "memory_comparison_change", broken)
    assert "It failed. It took longer than 90 seconds." in html
    assert "Failed, 0 of 2 policies done" in html
    assert ">Continue</button>" in html


def _old(chat: Chat, **fields: Any) -> Any:
    return add_comparison(chat, **fields).pk


# Continuing after a failure


def half_done(chat: Chat, **fields: Any) -> Comparison:
    told = add_comparison(chat).result or {}
    Comparison.objects.all().delete()
    growth = {**told["growth"], "ways": told["growth"]["ways"][:1]}
    result = {**told, "growth": growth, "failed": {"interval": "took longer than 90 seconds"}}
    return add_comparison(chat, **({"state": Comparing.FAILED, "result": result} | fields))


def test_what_failed_is_told_as_an_error_and_continued(staff: Client, chat: Chat) -> None:
    found = half_done(chat, progress={"chunked": 6, "interval": 2})
    html = text_of(staff, "memory_comparison_change", found.pk)
    for said in (
        '<div class="cm-note error" role="alert">',
        "<b>interval</b> took longer than 90 seconds.",
        "failed after 2 of 6 turns",
        "Failed, 1 of 2 policies done",
        "Results of the other policies are kept.",
        "At 6 turns, ",
    ):
        assert said in html
    path = reverse("admin:memory_comparison_continue", args=[found.pk])
    assert f'action="{path}"' in html
    assert staff.get(path).status_code == 405
    page = staff.post(path, follow=True).content.decode()
    assert "Waiting, 1 of 2 policies done" in page
    assert "<caption>What it costs</caption>" in page
    assert [one.task["args"][0] for one in OrmQ.objects.all()] == [str(found.pk)]
    assert LogEntry.objects.get().change_message == "Continued."
    again = staff.post(path, follow=True).content.decode()
    assert "There is nothing to continue." in again
    assert OrmQ.objects.count() == 1


def test_another_one_under_way_comes_first(staff: Client, chat: Chat) -> None:
    found = half_done(chat)
    other = add_comparison(chat, state=Comparing.WAITING, result=None)
    response = staff.post(reverse("admin:memory_comparison_continue", args=[found.pk]))
    assert response["Location"] == reverse("admin:memory_comparison_change", args=[other.pk])
    assert Comparison.objects.get(pk=found.pk).state == Comparing.FAILED


def test_a_chat_that_was_changed_is_not_continued(staff: Client, chat: Chat) -> None:
    found = half_done(chat, error=comparison.CHANGED)
    assert ">Continue<" not in text_of(staff, "memory_comparison_change", found.pk)
    path = reverse("admin:memory_comparison_continue", args=[found.pk])
    assert "nothing to continue" in staff.post(path, follow=True).content.decode()


def test_who_may_see_may_not_continue(chat: Chat) -> None:
    client, found = clerk("view_chat", "view_conversationbrief"), half_done(chat)
    assert ">Continue<" not in text_of(client, "memory_comparison_change", found.pk)
    assert client.post(reverse("admin:memory_comparison_continue", args=[found.pk])).status_code == 403
    assert Comparison.objects.get().state == Comparing.FAILED


@pytest.mark.parametrize("policy", POLICIES)
def test_the_chats_own_policy_and_one_other_are_chosen(policy: str, staff: Client, owner: User) -> None:
    chat = make_chat(owner)
    Chat.objects.filter(pk=chat.pk).update(policy=policy)
    form = staff.get(page_of(chat)).content.decode()
    chosen = re.findall(r'name="policies" value="(\w+)"[^>]* checked', form)
    assert policy in chosen
    assert len(chosen) == 2


# Refused requests


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ({"policies": []}, "Choose at least one."),
        ({"policies": ["magic"]}, "Select a valid choice. magic is not one"),
        ({"budget": "100"}, "It must be at least 501"),
        ({"budget": "500"}, "It must be at least 501"),
        ({"budget": "10000000000"}, "less than or equal to 1000000000"),
        ({"budget": EVIL}, "Enter a whole number."),
    ],
)
def test_what_makes_no_sense_is_refused(
    form: dict[str, Any], sentence: str, staff: Client, chat: Chat
) -> None:
    html = start(staff, chat, **form).content.decode()
    assert sentence in html
    assert "<script>alert" not in html
    assert not Comparison.objects.exists()


def test_an_empty_chat_has_nothing_to_compare(staff: Client, owner: User) -> None:
    html = staff.get(page_of(chat_lifecycle.create_chat(owner))).content.decode()
    assert "this chat has no messages" in html
    assert "<form" not in html.split('id="content-main"')[1]


def test_chats_and_comparisons_that_are_not_there(staff: Client) -> None:
    assert staff.get(reverse("admin:memory_comparison_compare", args=[new_id()])).status_code == 404
    assert staff.post(reverse("admin:memory_comparison_continue", args=[new_id()])).status_code == 404


def pages(found: Comparison) -> list[str]:
    names = [("compare", found.chat_id), ("change", found.pk)]
    return [reverse(f"admin:memory_comparison_{name}", args=[pk]) for name, pk in names]


@pytest.mark.parametrize("permissions", [(), ("view_chat",), ("view_conversationbrief",)])
def test_who_may_not_see_chat_and_memory_sees_no_comparison(permissions: tuple[str, ...], chat: Chat) -> None:
    client, found = clerk(*permissions), add_comparison(chat)
    assert [client.get(page).status_code for page in pages(found)] == [403] * 2
    assert [Client().get(page).status_code for page in pages(found)] == [302] * 2
    for page in ("conversations_chat", "memory_conversationbrief"):
        seen = client.get(reverse(f"admin:{page}_change", args=[chat.pk])).content.decode()
        assert page_of(chat) not in seen


def test_who_may_see_may_not_start(chat: Chat) -> None:
    client, found = clerk("view_chat", "view_conversationbrief"), add_comparison(chat)
    assert [client.get(page).status_code for page in pages(found)] == [200] * 2
    assert "<form" not in client.get(page_of(chat)).content.decode().split('id="content-main"')[1]
    assert start(client, chat).status_code == 403
    assert Comparison.objects.count() == 1


def test_who_may_resummarize_may_start(chat: Chat) -> None:
    client = clerk("view_chat", "view_conversationbrief", "change_conversationbrief")
    assert start(client, chat).status_code == 200
    assert Comparison.objects.count() == 1


def test_a_request_from_another_site_is_refused(boss: User, chat: Chat) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(boss)
    assert start(client, chat).status_code == 403
    assert not Comparison.objects.exists()


# How the pages are built


def every_page(client: Client, chat: Chat) -> Iterator[str]:
    yield client.get(page_of(chat)).content.decode()
    for state in Comparing.values:
        found = add_comparison(chat, state=state)
        yield text_of(client, "memory_comparison_change", found.pk)
        found.delete()


def test_text_is_text_and_nothing_is_inline(staff: Client, owner: User) -> None:
    chat = make_chat(owner, title=f"T {EVIL}", said=EVIL)
    for html in every_page(staff, chat):
        assert "T &lt;" in html
        for tag in ("<script>", "<img src=x", "<svg/onload", "alert(3)&gt;14"):
            assert tag not in html
        assert not re.search(r"<script(?![^>]*\bsrc=)[^>]*>[^<]*\S", html)
        assert not re.search(r"<[^>]+\s(style|on\w+)=", html)


def test_the_page_of_a_chat_costs_the_same_however_much_was_compared(staff: Client, owner: User) -> None:
    def cost(turns: int, comparisons: int) -> int:
        chat = make_chat(owner, turns=turns)
        for _ in range(comparisons):
            add_comparison(chat, requested_by=User.objects.create_user(f"{new_id()}"))
        with CaptureQueriesContext(connection) as captured:
            staff.get(page_of(chat))
        assert not any("result" in query["sql"] for query in captured.captured_queries)
        return len(captured)

    assert cost(50, comparison.KEPT) == cost(2, 1) <= 5  # including the one that records the view
