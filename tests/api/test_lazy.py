"""The lazy fold (seed 003): a reply waits for its memory if its chat asks for that, a few seconds at most."""

import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from chatmemory.llm.openai import client as upstream_client
from memory import conf
from memory.briefs import Memory
from memory.folding import request
from memory.policies import POLICIES
from memory.turn import StaleMemory, require_fresh
from tests.api.talking import messages
from tests.support.exhaustive import first_of
from tests.support.factories import brief_of, make_chat
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client
from tests.support.waiting import wait_for

ANSWER = json.dumps(
    {
        "facts": [{"key": "order_id", "value": "AB-1234", "category": "ENTITY"}],
        "removed": [],
        "narrative": "They spoke of an order.",
    }
)
FACT = "- order_id: AB-1234"
SMALL = {"trigger_messages": 4, "recent_messages": 2}


@pytest.fixture(autouse=True)
def facts(upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the summarizer answer with one fact, and retries quick."""
    upstream.behave("normal", lane="complete", text=ANSWER)
    monkeypatch.setattr(upstream_client, "PAUSES", (0.01, 0.02))


def due_chat(client: Client, turns: int = 3, **options: Any) -> str:
    """Make a chat that has just become due and that no worker folds, because none runs here."""
    body = {"policy": "hierarchical", "options": {**SMALL, **options}}
    made = client.post("chats", json=body)
    assert made.status_code == 201, made.text
    chat = str(made.json()["id"])
    for number in range(turns):
        client.ask(f"question {number} on AB-1234", chat)
    assert brief_of(chat).due
    return chat


def last_prompt(upstream: FakeUpstream) -> str:
    return "\n".join(content for _, content in upstream.calls("stream")[-1].said)


# The fold comes first


def test_the_prompt_holds_the_fold_of_the_turns_before_it(alice: Client, upstream: FakeUpstream) -> None:
    chat = due_chat(alice, lazy=True)
    assert upstream.calls("complete") == []
    body = {"message": "And now?", "chat_id": chat}
    assert alice.events("POST", "message", json=body)[-1].name == "message.completed"
    prompt = last_prompt(upstream)
    assert FACT in prompt
    assert "They spoke of an order." in prompt
    assert "question 0" not in prompt, "it is folded"
    assert "question 2" in prompt, "it is in the window"
    (fold,) = upstream.calls("complete")
    assert fold.at < upstream.calls("stream")[-1].at
    assert "question 0" in fold.said[-1][1]


def test_another_answer_waits_as_well(alice: Client, upstream: FakeUpstream) -> None:
    chat = due_chat(alice, lazy=True)
    last = messages(alice, chat)[-1]
    again = alice.post(f"chats/{chat}/messages/{last['id']}/regenerate", json={"stream": False})
    assert again.status_code == 200, again.text
    assert FACT in last_prompt(upstream)
    assert "question 2" in last_prompt(upstream)


def test_the_same_request_twice_is_one_turn_though_both_wait(alice: Client, upstream: FakeUpstream) -> None:
    chat = due_chat(alice, lazy=True)
    before = len(messages(alice, chat))
    upstream.hold("complete")

    def ask() -> str:
        body = {"message": "And now?", "chat_id": chat, "stream": False}
        answer = alice.post("message", json=body, headers={"Idempotency-Key": "once"})
        return str(answer.json()["message"]["id"])

    with ThreadPoolExecutor() as pool:
        one, two = (pool.submit(ask) for _ in range(2))
        upstream.wait_until(lambda it: it.held("complete") == 1)
        assert len(messages(alice, chat)) == before, "nothing is stored while a turn waits"
        upstream.release("complete")
    assert one.result() == two.result()
    assert len(messages(alice, chat)) == before + 2


# It never blocks a reply


@pytest.mark.exhaustive
def test_a_summarizer_that_hangs_delays_a_reply_by_no_more_than_its_seconds(
    alice: Client, upstream: FakeUpstream
) -> None:
    chat, other = due_chat(alice, lazy=True, lazy_seconds=1), due_chat(alice)
    upstream.hold("complete")
    began = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(alice.ask, "And now?", chat)
        upstream.wait_until(lambda it: it.held("complete") == 1)
        alice.ask("Meanwhile?", other)
        assert not waiting.done(), "others do not wait with it"
        assert waiting.result()["message"]["status"] == "complete"
    assert 1 <= time.monotonic() - began < 4
    assert "question 0" in last_prompt(upstream), "no turn is missing in what there is"
    assert FACT not in last_prompt(upstream)
    upstream.release("complete")
    wait_for(lambda: not brief_of(chat).lease_owner)
    alice.ask("And then?", chat)
    assert FACT in last_prompt(upstream), "what it said in the end was not in vain"


@pytest.mark.parametrize("fault", first_of(["status?code=500", "normal?text=no JSON"]))
def test_a_failure_is_no_error_of_the_reply_and_the_next_one_does_not_wait_for_it(
    alice: Client, upstream: FakeUpstream, fault: str
) -> None:
    chat = due_chat(alice, lazy=True)
    upstream.behave(fault, lane="complete")
    assert alice.ask("And now?", chat)["message"]["status"] == "complete"
    assert "question 0" in last_prompt(upstream)
    asked = len(upstream.calls("complete"))
    assert brief_of(chat).attempts == 1
    assert alice.ask("And then?", chat)["message"]["status"] == "complete"
    assert len(upstream.calls("complete")) == asked, "the back-off holds here, too"


def test_a_fault_of_our_own_is_logged_and_no_more(
    alice: Client, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    chat = due_chat(alice, lazy=True)

    def broken(*_: Any, **__: Any) -> None:
        raise LookupError("a bug")

    monkeypatch.setattr(request, "fold", broken)
    assert alice.ask("And now?", chat)["message"]["status"] == "complete"
    assert [one.message for one in caplog.records if one.levelno >= logging.WARNING] == ["memory not freshened"]


def test_asking_whether_to_wait_costs_no_query(django_assert_num_queries: Any) -> None:
    chat = make_chat(policy="hierarchical")
    stored = brief_of(chat)
    stored.chat = chat
    with django_assert_num_queries(0):
        for due, options in (False, {"lazy": True}), (True, {}):
            stored.due, stored.options = due, options
            require_fresh(Memory.of(stored))
        stored.options = {"lazy": True, "lazy_seconds": 7}
        with pytest.raises(StaleMemory) as caught:
            require_fresh(Memory.of(stored))
    assert (caught.value.chat, caught.value.seconds) == (chat.key, 7)
    assert POLICIES["chunked"].lazy_seconds(conf.limits()) == 0
