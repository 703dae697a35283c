"""The checks of the bench find what they are there to find."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from conversations.models import Chat, IdempotencyKey, Message
from memory.models import ContextRecord
from tests.faults.bench import checks
from tests.processes.prompts import code
from tests.support.factories import add_turn, make_chat, make_user

pytestmark = pytest.mark.django_db

TEXT = f"Note {code(1)} please"


@pytest.fixture
def turn() -> dict[str, Any]:
    """A turn of alice's, stored as she was told."""
    chat = make_chat(make_user("alice"))
    reply = add_turn(chat, TEXT, "Noted.")
    assert reply.reply_to is not None
    IdempotencyKey.objects.create(
        user=chat.owner,
        key="alice-1",
        request_hash="",
        chat=chat,
        user_message_id=reply.reply_to.pk,
        message_id=reply.pk,
        created_at=timezone.now(),
    )
    return {
        "user": "alice",
        "key": "alice-1",
        "text": TEXT,
        "again": False,
        "ids": [str(chat.pk), str(reply.reply_to.pk), str(reply.pk)],
        "final": {"content": "Noted.", "status": "complete", "seq": 2},
    }


def test_what_is_as_it_was_told_is_no_problem(turn: dict[str, Any]) -> None:
    case = {"users": ["alice"], "turns": [turn], "imported": [], "prompts": [[TEXT, TEXT]]}
    assert checks.problems(case) == []
    assert checks.unsettled(["alice"]) == []


@pytest.mark.parametrize(
    "change",
    [
        {"text": "Something else"},
        {"final": {"content": "Noted, and more.", "status": "complete", "seq": 2}},
        {"final": {"content": "Noted.", "status": "incomplete", "seq": 2}},
        {"key": "alice-2"},
        {"ids": ["", "", ""]},
    ],
)
def test_what_is_not_as_it_was_told(turn: dict[str, Any], change: dict[str, Any]) -> None:
    assert list(checks.acknowledged([{**turn, **change}]))


def test_what_is_there_no_more(turn: dict[str, Any]) -> None:
    missing = "01a1fe34-0991-773c-8036-4f5fa77a5599"
    assert len(list(checks.acknowledged([{**turn, "ids": [turn["ids"][0], missing, missing]}]))) == 3


def test_a_question_that_is_there_twice(turn: dict[str, Any]) -> None:
    assert not list(checks.nothing_twice([turn], []))
    add_turn(Chat.objects.get(), TEXT, "Noted again.")
    assert len(list(checks.nothing_twice([turn], []))) == 2


def test_a_chat_that_nobody_knows_of(turn: dict[str, Any]) -> None:
    unknown = make_chat(make_user("alice"))
    assert len(list(checks.nothing_twice([turn], []))) == 1
    assert not list(checks.nothing_twice([turn], [str(unknown.pk)]))


def test_an_upstream_that_is_asked_twice(turn: dict[str, Any]) -> None:
    assert not list(checks.asked_once([turn, {**turn, "again": True}], [[TEXT, ""], [TEXT, ""]]))
    assert list(checks.asked_once([turn], [[TEXT, ""], [TEXT, ""]]))


@pytest.mark.parametrize(
    ("prompt", "unrepresented", "problems"),
    [(f"as you said, {code(1)}", 0, 0), ("nothing of it", 1, 0), ("nothing of it", 0, 1)],
    ids=["shown", "counted", "neither"],
)
def test_a_turn_that_is_not_in_the_prompt(
    turn: dict[str, Any], prompt: str, unrepresented: int, problems: int
) -> None:
    question = f"And now {code(2)}"
    reply = add_turn(Chat.objects.get(), question, "Noted, too.")
    _record(reply, unrepresented)
    found = checks.nothing_left_out([[question, f"{prompt}\n{question}"]], [make_user("alice")])
    assert len(list(found)) == problems


def _record(reply: Message, unrepresented: int) -> None:
    ContextRecord.objects.create(
        reply=reply,
        revision=0,
        policy="chunked",
        plan={},
        sections=[],
        tokens=0,
        budget=0,
        unrepresented=unrepresented,
        clipped=0,
        dropped=0,
        prompt_hash="",
    )
