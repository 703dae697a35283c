"""A reply of an upstream with an odd field: answered in time, stored as reported, and within the contract."""

import time
from typing import Any

from chatmemory.llm.openai import reading
from tests.support.fakes.odd import Odd
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

SECONDS = 5.0
"""The time limit for one reply, on a machine that is busy."""


def ask_odd(client: Client, upstream: FakeUpstream, odd: Odd, chat: str | None = None) -> dict[str, Any]:
    """Return the reply as it is reported and stored; assert that it came in time."""
    upstream.behave(odd.behaviour, lane="stream")
    started = time.monotonic()
    body = {"message": "Where is Ada?", "stream": False, **({"chat_id": chat} if chat else {})}
    answer = client.post("message" if chat else "message/first", json=body)
    took = time.monotonic() - started
    assert took < SECONDS, (odd.field, odd.value, took)
    assert answer.status_code in (200, 502), (odd.field, odd.value, answer.text)
    told = answer.json() if answer.status_code == 200 else answer.json()["error"]["details"]
    message: dict[str, Any] = told["message"]
    assert client.get(f"chats/{message['chat_id']}/messages/{message['id']}").json() == message
    assert_plain(message)
    return message


def assert_plain(message: dict[str, Any]) -> None:
    """Assert that every field of the message is within the contract."""
    assert len(message["model"]) <= reading.MAX_MODEL_CHARS
    assert message["model"].isprintable()
    usage = message["usage"]
    if usage is not None:
        counts = [usage[name] for name in ("input_tokens", "cached_tokens", "output_tokens")]
        assert all(type(count) is int and 0 <= count <= reading.MAX_TOKENS for count in counts), usage
