"""An upstream whose answers have odd fields: whatever it says about itself, the reply is prompt and honest."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import DataError, OperationalError
from django.utils import timezone

from chatmemory.llm.openai import reading
from chatmemory.llm.openai.reading import Style
from chatmemory.llm.protocol import Price
from conversations.models import ActiveReply, Message
from conversations.replies import finish, generation
from tests.api.odd_answers import ask_odd
from tests.api.talking import Turn, begin_reply, reply
from tests.support.exhaustive import first_of
from tests.support.fakes.odd import SAID, Odd, odd_labels
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client
from tests.support.waiting import wait_for
from tests.upstream.talking import STYLES

pytestmark = pytest.mark.postgres

DEAR = Price(Decimal(10**6), Decimal(10**6), Decimal(10**6))


@pytest.mark.promise("P9")
@pytest.mark.parametrize("style", first_of(STYLES))
def test_odd_answer_metadata_completes_reply(
    alice: Client, upstream: FakeUpstream, settings: Any, style: Style
) -> None:
    settings.OPENAI_API_STYLE = style
    chat = None
    for odd in odd_labels(style):
        message = ask_odd(alice, upstream, odd, chat)
        chat = message["chat_id"]
        assert (message["status"], message["content"], message["error"]) == ("complete", SAID, None), odd
        assert Message.objects.get(pk=message["id"]).content == SAID
        # Invalid counts are reported as unknown, not made up.
        assert message["usage"] is None, odd.value
    upstream.behave("normal")
    usage = alice.ask("And now?", chat)["message"]["usage"]
    assert usage["input_tokens"] > 0


@pytest.mark.promise("P9")
def test_a_cost_beyond_its_column_is_not_known(alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    settings.MODEL_VARIANTS = {name: replace(variant, price=DEAR) for name, variant in settings.MODEL_VARIANTS.items()}
    most = str(reading.MAX_TOKENS)
    body = next(iter(odd_labels("responses"))).body  # its counts are null
    told = body.replace(b'"input_tokens": null', b'"input_tokens": ' + most.encode())
    told = told.replace(b'"output_tokens": null', b'"output_tokens": ' + most.encode())
    assert told != body
    message = ask_odd(alice, upstream, Odd("usage", most, told))
    assert message["status"] == "complete"
    assert message["usage"]["input_tokens"] == reading.MAX_TOKENS
    assert message["usage"]["cost_usd"] is None


def test_values_beyond_columns_are_dropped_and_reply_stored(
    alice: Client, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulate a field that was overlooked where answers are read."""
    monkeypatch.setattr(reading, "MAX_TOKENS", 10**40)
    huge = next(odd for odd in odd_labels("responses") if odd.value == "huge")
    message = ask_odd(alice, upstream, huge)
    assert (message["status"], message["content"]) == ("complete", SAID)
    assert message["usage"] is None


def refuse_to_store(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> Callable[[], None]:
    """Make every attempt to store a reply fail; return what ends that."""
    store = finish.finish

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise failure

    monkeypatch.setattr(finish, "finish", refuse)
    return lambda: monkeypatch.setattr(finish, "finish", store)


@pytest.mark.parametrize(
    "failure",
    [DataError("no column takes it"), OperationalError("the disk is full"), RuntimeError("a fault of ours")],
    ids=lambda failure: type(failure).__name__,
)
def test_stream_of_a_reply_that_cannot_be_stored_ends_and_can_be_resumed(
    alice: Client, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    chat = alice.ask("Hello")["chat_id"]
    monkeypatch.setattr(generation, "SILENT_TRIES", 1)
    store = refuse_to_store(monkeypatch, failure)
    with alice.stream("POST", "message", json={"chat_id": chat, "message": "Again"}) as events:
        first, *_, last = events
    assert (last.name, last.data["error"]["code"]) == ("reconnect", "unavailable")
    assert last.data["retry_ms"] == 5000
    answer = alice.post("message/first", json={"message": "Hello", "stream": False})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert {"chat_id", "message_id"} == answer.json()["error"]["details"].keys()
    body = {"model": "arco", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    told = alice.post("chat/completions", json=body).text
    assert '"code":"unavailable"' in told
    assert told.endswith("data: [DONE]\n\n")
    store()
    wait_for(lambda: not generation._running)
    ActiveReply.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    finish.finish_expired()
    with alice.stream("GET", f"{Turn.of(first.data).path}/stream") as events:
        *_, last = events
    assert last.name in ("message.completed", "message.incomplete", "message.failed")


def test_a_reply_that_cannot_be_stored_at_all_is_left_to_the_next_turn(
    alice: Client, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = refuse_to_store(monkeypatch, DataError("a value that no column takes"))
    turn = begin_reply(alice)
    wait_for(lambda: caplog.text.count("reply does not fit the database") == 2)
    assert reply(alice, turn)["status"] == "streaming"
    assert "Traceback" not in caplog.text
    store()
    ActiveReply.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    assert alice.ask("And now?", turn.chat)["message"]["status"] == "complete"
    assert reply(alice, turn)["status"] in ("incomplete", "failed")
