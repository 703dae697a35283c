"""What is happening to a chat's memory is said in one way everywhere: API, admin and commands."""

from datetime import timedelta
from html import unescape
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.models import ConversationBrief, Worker
from memory.status import CONDITIONS, work_of
from tests.admin.rows import make_chat
from tests.support.exhaustive import first_of_each

pytestmark = pytest.mark.django_db
SOON, BEFORE = timedelta(seconds=40), timedelta(seconds=-20)
ERROR = {"code": "new_instruction", "message": "It quotes: heron"}
HELD = {"lease_owner": "a:1", "lease_expires_at": SOON}
PAUSED = {"paused_at": BEFORE, "paused_seq": 0}
FAILED: dict[str, Any] = {"attempts": 7, "last_error": ERROR, "next_attempt_at": SOON}

WORKER = "with a worker"
CASES: dict[str, tuple[dict[str, Any], str, str, str | None]] = {
    "at rest": ({}, "idle", "Up to date", None),
    "failed, and nothing is to be done any more": (FAILED, "idle", "Up to date", None),
    "failed while paused": ({**FAILED, **PAUSED}, "paused", "Updates paused", "paused"),
    "built-in summary while paused": ({**PAUSED, "degraded": True}, "paused", "Updates paused", "paused"),
    "due": ({"due": True, "queued_at": BEFORE}, "no_worker", "Update queued", "update"),
    "asked for while paused": ({**PAUSED, "requested": "update"}, "no_worker", "Update queued", "update"),
    WORKER: ({"due": True, "queued_at": BEFORE}, "queued", "Update queued", "update"),
    "being updated": ({"due": True, **HELD}, "folding", "Updating", "update"),
    "at its first attempt": ({"due": True, "attempts": 1, **HELD}, "folding", "Updating", "update"),
    "being rebuilt": ({"requested": "rebuild", **HELD}, "rebuilding", "Rebuilding", "rebuild"),
    "too many changes": ({"due": True, "delayed_until": SOON}, "waiting", "Update queued", "update"),
    "failing": ({"due": True, **FAILED, "attempts": 1}, "waiting", "Failing (1 attempt)", "failing"),
    "given up": ({"due": True, **FAILED}, "no_worker", "Failing (7 attempts)", "failing"),
    "built-in summary": ({"degraded": True, **FAILED}, "waiting", "Failing (7 attempts)", "failing"),
    "built-in summary, to be replaced": ({"degraded": True}, "no_worker", "Rebuild queued", "rebuild"),
}


@pytest.mark.parametrize("case", first_of_each(CASES, lambda case: CASES[case][1]))
def test_every_page_says_the_same(case: str, staff: Client, owner: User) -> None:
    fields, state, label, found_by = CASES[case]
    chat = make_chat(owner, turns=2, title="heading")
    now = timezone.now()
    ConversationBrief.objects.filter(chat=chat).update(
        **{name: now + value if isinstance(value, timedelta) else value for name, value in fields.items()}
    )
    if case == WORKER:
        Worker.objects.create(pk="w")
    brief = ConversationBrief.objects.get(chat=chat)
    work = work_of(brief)
    assert (work.state, work.label) == (state, label)

    api = Client()
    api.force_login(owner)
    told = api.get(f"/v1/chats/{chat.pk}/brief").json()["work"]
    assert (told["state"], told["attempt"], told["error"]) == (state, work.attempts, work.error)
    assert (told["since"] is None) is (work.since is None)
    sentence = work.sentence.split(" in ")[0].split(" comes ")[0]  # without a time that runs
    assert told["sentence"].startswith(sentence)
    for page in ("conversations_chat_change", "memory_conversationbrief_change"):
        html = unescape(staff.get(reverse(f"admin:{page}", args=[chat.pk])).content.decode())
        assert sentence in html, page
        assert "new_instruction" not in html, page
        assert ("Up to date" in html) == (state == "idle"), page
    for page in ("/admin/conversations/chat/", "/admin/memory/conversationbrief/"):
        html = staff.get(page).content.decode()
        assert f">{label}<" in html, page
        assert "new_instruction" not in html, page
    out = StringIO()
    call_command("memory", stdout=out, stderr=StringIO())
    assert label in out.getvalue()

    states = [name for name in CONDITIONS if name != "degraded"]
    matching = [name for name in states if ConversationBrief.objects.filter(CONDITIONS[name]).exists()]
    assert matching == ([found_by] if found_by else [])
