"""Each number of the overview leads to the chats that it counts, in one click."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from conversations.models import Chat
from memory.admin import states
from memory.admin.states import STATES
from memory.models import ConversationBrief
from tests.admin.rows import begin, make_chat, member_of_staff
from tests.support.exhaustive import first_of

pytestmark = pytest.mark.django_db

FACT = re.compile(
    r"<dt>(?P<label>[^<]*)</dt><dd[^>]*>(?:<a href=\"(?P<url>[^\"]*)\"[^>]*>)?(?P<number>[\d,]+)<"
)


@pytest.fixture
def chats(owner: User) -> dict[str, Chat]:
    """Make one chat in each state, and one without pending work that failed before."""
    soon = timezone.now() + timedelta(minutes=5)
    told: dict[str, dict[str, Any]] = {
        "due": {"due": True},
        "delayed": {"due": True, "delayed_until": soon},
        "failing": {"due": True, "attempts": 3, "last_error": {"code": "upstream_timeout"}},
        "degraded": {"degraded": True},
        "update": {"requested": "update"},
        "rebuild": {"requested": "rebuild", "due": True},
        "failing rebuild": {
            "requested": "rebuild",
            "degraded": True,
            "attempts": 1,
            "last_error": {"code": "refused"},
            "next_attempt_at": soon,
        },
        "at rest": {"attempts": 1, "next_attempt_at": soon},  # no work is pending for that attempt
    }
    made = {name: make_chat(owner, turns=1, title=name) for name in told}
    for name, fields in told.items():
        ConversationBrief.objects.filter(chat=made[name]).update(**fields)
    return made


IN_STATE = {
    "failing": {"failing", "failing rebuild"},
    "update": {"due", "delayed", "update"},
    "rebuild": {"degraded", "rebuild"},
    "degraded": {"degraded", "failing rebuild"},
}
LISTS = ("memory_conversationbrief", "conversations_chat")


def titles(client: Client, url: str, **query: Any) -> set[str]:
    answer = client.get(url, query)
    assert answer.status_code == 200
    return {getattr(row, "chat", row).title for row in answer.context["cl"].result_list}


def facts(client: Client) -> dict[str, tuple[str, str]]:
    """Return the numbers at the head of the overview, each with its link."""
    html = client.get("/admin/").content.decode()
    return {one["label"]: (one["number"], unescape(one["url"] or "")) for one in FACT.finditer(html)}


@pytest.mark.parametrize("state", first_of(STATES))
def test_each_number_leads_to_just_those_chats(state: str, staff: Client, chats: dict[str, Chat]) -> None:
    number, url = facts(staff)[STATES[state].label]
    assert titles(staff, url) == IN_STATE[state]
    assert int(number) == len(IN_STATE[state])


@pytest.mark.parametrize("page", LISTS)
@pytest.mark.parametrize("state", first_of(STATES))
def test_both_lists_can_be_narrowed(page: str, state: str, staff: Client, chats: dict[str, Chat]) -> None:
    assert titles(staff, reverse(f"admin:{page}_changelist"), memory=state) == IN_STATE[state]


@pytest.mark.parametrize("page", LISTS)
def test_any_other_state_narrows_nothing(page: str, staff: Client, chats: dict[str, Chat]) -> None:
    for state in ("", "none", "due' OR 1=1", "x" * 500):
        assert titles(staff, reverse(f"admin:{page}_changelist"), memory=state) == set(chats)


def test_a_state_goes_with_a_search(staff: Client, chats: dict[str, Chat]) -> None:
    url = reverse("admin:memory_conversationbrief_changelist")
    assert titles(staff, url, memory="failing", q="rebuild") == {"failing rebuild"}


def test_nothing_leads_nowhere(staff: Client) -> None:
    assert facts(staff)["Failing"] == ("0", "")


def test_the_list_says_why_and_when_it_goes_on(staff: Client, chats: dict[str, Chat]) -> None:
    ConversationBrief.objects.filter(chat=chats["failing"]).update(
        last_error={"code": "upstream_timeout", "message": "They said: heron"}, next_attempt_at=timezone.now()
    )
    url = reverse("admin:memory_conversationbrief_changelist")
    html = staff.get(url, {"memory": "failing"}).content.decode()
    assert "Failing (3 attempts)" in html
    assert "The model did not answer in time. Next attempt <time" in html
    assert "heron" not in html


def test_no_more_are_listed_than_a_list_pages_through(
    staff: Client, chats: dict[str, Chat], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "LIST_LIMIT", 2)
    assert len(titles(staff, reverse("admin:memory_conversationbrief_changelist"), memory="update")) == 2


def test_replies_being_written_lead_to_those_who_may_see_them(staff: Client, owner: User) -> None:
    begin(make_chat(owner), "And eat?", "k")
    assert facts(staff)["Replies being written"] == ("1", "/admin/conversations/activereply/")
    viewer = member_of_staff("vera", "view_conversationbrief")
    assert facts(viewer)["Replies being written"] == ("1", "")
