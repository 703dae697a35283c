"""What the prompt of a question recalls, over HTTP."""

import time
from typing import Any

import pytest

from conversations.models import Chat
from memory.folding.fold import fold
from memory.folding.request import request_resummarize
from tests.support.factories import add_turns
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

TOPIC = "Lighthouse: the target date, the approved budget and major blockers were on the agenda again, item"
DATE = "Recording the Lighthouse target date as July 31, 2026."


@pytest.mark.parametrize(
    "question",
    [
        "Give me the current Lighthouse target date, current approved budget, and whether any major blockers remain.",
        "Where were we with the Lighthouse target date?",
    ],
)
def test_who_asks_gets_the_answer_although_the_newest_turns_have_the_questions_words(
    question: str, alice: Client, upstream: FakeUpstream
) -> None:
    chat = Chat.objects.get(pk=alice.post("chats", json={}).json()["id"])
    noise = [(f"Desk {number} was moved to the other side of the hall.", "Noted.") for number in range(116)]
    newest = [(f"{TOPIC} {number}.", "Noted.") for number in range(4)]
    add_turns(chat, [*noise[:95], (DATE, "Noted."), *noise[95:], *newest])
    upstream.behave("normal", lane="complete", text="Nothing.")
    request_resummarize(chat, "update")
    assert fold(chat.key, until=time.monotonic() + 60).outcome == "done"
    shown: dict[str, Any] = alice.post(f"chats/{chat.pk}/context", json={"message": question}).json()
    assert shown["recall"]["sought"] == "all"
    assert "July 31, 2026" in "".join(section["text"] for section in shown["sections"])
