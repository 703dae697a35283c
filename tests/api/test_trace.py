"""A fact traced over HTTP: who said it, which version lost it, and whether the next prompt would have it."""

from typing import Any

import pytest

from conversations.models import Chat
from memory.explain import trace as fact_trace
from tests.api.talking import error
from tests.support.factories import add_turns
from tests.support.fakes.behaviours import lorem
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import update
from tests.support.live_server import Client

FACT = "QX-4711"
KEYS = {"text", "said", "summary", "now"}


def trace(client: Client, chat_id: str, text: str = FACT) -> dict[str, Any]:
    answer = client.post(f"chats/{chat_id}/trace", json={"text": text})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    assert set(body) == KEYS
    return body


def turns(first: int, last: int) -> list[tuple[str, str]]:
    return [(f"Note {number}: {lorem(60)}", f"Noted. {lorem(40)}") for number in range(first, last + 1)]


@pytest.fixture
def chat(alice: Client, upstream: FakeUpstream, settings: Any) -> str:
    """A chat whose first question says the fact. Version 1 of its summary has it, version 2 has lost it."""
    settings.MEMORY_FOLD_BITE_TOKENS = 6000
    chat_id: str = alice.post("chats", json={}).json()["id"]
    alice.ask(f"My reservation is {FACT}, please.", chat_id)
    stored = Chat.objects.get(pk=chat_id)
    add_turns(stored, turns(1, 6))
    assert update(stored).outcome == "done"
    alice.ask("What is next?", chat_id)
    add_turns(stored, turns(7, 12))
    upstream.behave("normal", lane="complete", text=f"The customer took some notes. {lorem(60)}")
    assert update(stored).outcome == "done"
    upstream.behave("normal", lane="complete")
    alice.ask("And what after that?", chat_id)
    return chat_id


def test_trace_leads_from_message_to_fold_that_lost_fact(alice: Client, chat: str) -> None:
    found = trace(alice, chat)
    echo, said = found["said"]["messages"]
    assert [(one["seq"], one["role"]) for one in (said, echo)] == [(1, "user"), (2, "assistant")]
    ((start, end),) = said["snippet"]["matches"]
    assert said["snippet"]["text"][start:end] == FACT
    assert found["said"]["more"] is False

    summary = found["summary"]
    (held,) = summary["held"]
    assert (held["from_version"], held["through_version"]) == (1, 1)
    assert (held["lost"]["version"], held["lost"]["kind"]) == (2, "fold")
    assert (summary["in_use"], summary["exact"], summary["more"]) == (False, True, False)
    difference = alice.get(f"chats/{chat}/revisions/2/diff").json()
    assert FACT in "".join(piece["text"] for piece in difference["pieces"] if piece["op"] == "delete")


def test_trace_reports_presence_in_current_prompt(alice: Client, chat: str) -> None:
    now = trace(alice, chat)["now"]
    assert now["how"] == ["recalled"]
    assert now["recall"]["reason"] == "new_words"
    sent = alice.post(f"chats/{chat}/context", json={"message": FACT}).json()
    (recalled,) = (one["text"] for one in sent["sections"] if one["kind"] == "recall")
    assert FACT in recalled


def test_trace_of_long_history_reads_few_versions(alice: Client, chat: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fact_trace, "MAX_VERSIONS", 1)
    summary = trace(alice, chat)["summary"]
    assert (summary["exact"], summary["more"], summary["held"]) == (False, True, [])


def test_an_empty_chat_has_no_trace_and_a_text_must_have_words(alice: Client) -> None:
    chat_id = alice.post("chats", json={}).json()["id"]
    found = trace(alice, chat_id)
    assert found["summary"] == {"in_use": False, "held": [], "exact": True, "more": False}
    for text in ("the", "?!", "", " ", "x" * 501):
        told = error(alice.post(f"chats/{chat_id}/trace", json={"text": text}), 400, "invalid_request")
        assert "text" in told["details"]
