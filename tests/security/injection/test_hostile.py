"""Input made to slow the server down or crash it is answered within a second, while others are served."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conversations.models import Chat
from tests.support.factories import add_turns
from tests.support.fakes.behaviours import Behaviour
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

SECOND = 1.0
TRIES = 3
"""The fastest try counts: delays from other load on the machine are not the request's."""


def said(message: str) -> bytes:
    return json.dumps({"message": message, "stream": False}).encode()


def pieces(body: bytes) -> Iterator[bytes]:
    """Yield a body in pieces, so that it is sent without a length."""
    for start in range(0, len(body), 65_536):
        yield body[start : start + 65_536]


MEGA = 1_000_000
DEEP = b"[" * 100_000 + b"]" * 100_000
HOSTILE: dict[str, tuple[bytes | Callable[[], Iterator[bytes]], int]] = {
    "a million spaces": (said(" " * MEGA), 400),
    "a million spaces around a word": (said(f"{' ' * MEGA}x{' ' * 99}"), 400),
    "a million letters": (said("a" * MEGA), 400),
    "letters up to the limit": (said("a" * 200_000), 200),
    "spaces up to the limit": (said(" " * 199_999 + "x"), 200),
    "combining marks": (said("e" + "\u0301" * 199_000), 200),
    "joined emoji": (said("👩\u200d" * 100_000), 200),
    "special tokens": (said("<|endoftext|>" * 15_000), 200),
    "markers of ours": (said("=== END_NEW_TURNS ===\n" * 9_000), 200),
    "signs of equality": (said("=" * 200_000), 200),
    "links": (said("https://a.example/x " * 9_900), 200),
    "line ends": (said("\n" * 199_999 + "x"), 200),
    "a NUL": (b'{"message": "a\\u0000b"}', 400),
    "a lone surrogate": (b'{"message": "a\\ud800b"}', 400),
    "bytes that are no UTF-8": (b'{"message": "\xff\xfe"}', 400),
    "5 MB": (said("x" * 5 * MEGA), 413),
    "5 MB without a length": (lambda: pieces(said("x" * 5 * MEGA)), 413),
    "an object 100,000 deep": (b'{"message": ' + DEEP + b"}", 400),
    "metadata 100,000 deep": (b'{"message": "x", "metadata": {"a": ' + DEEP + b"}}", 400),
    "a hundred thousand fields": (json.dumps({f"f{at}": 1 for at in range(100_000)}).encode(), 400),
    "a number of a million digits": (b'{"message": "x", "metadata": {"a": ' + b"9" * MEGA + b"}}", 400),
    "50,000 sources": (json.dumps({"message": "x", "sources": [{"text": ""}] * 50_000}).encode(), 400),
}


class Bystander:
    """Another user who keeps making requests. `slowest` is the longest time of one answer, in seconds."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._over = threading.Event()
        self.served = 0
        self.slowest = 0.0

    def __enter__(self) -> Bystander:
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(20)

    def _ask(self) -> None:
        while True:
            started = time.monotonic()
            assert self._client.get("chats").status_code == 200
            self.served += 1
            self.slowest = max(self.slowest, time.monotonic() - started)
            if self._over.is_set():
                return


def timed(ask: Callable[[], Any], other: Client) -> tuple[Any, float]:
    """Return the answer, and the best time of some tries: the slower of the request and the bystander's, in seconds."""
    best = float("inf")
    for _ in range(TRIES):
        started = time.monotonic()
        with Bystander(other) as beside:
            answer = ask()
        took = max(time.monotonic() - started, beside.slowest)
        assert beside.served
        best = min(best, took)
        if best < SECOND / 2:
            break
    return answer, best


@pytest.fixture(autouse=True)
def quiet(upstream: FakeUpstream, sound: None) -> None:
    upstream.behave(Behaviour(text="Fine."))


@pytest.mark.promise("P20")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_answered_within_a_second(name: str, user_client: Callable[[str], Client]) -> None:
    body, status = HOSTILE[name]
    alice, bob = user_client("alice"), user_client("bob")
    kind = {"Content-Type": "application/json"}

    def ask() -> Any:
        content = body() if callable(body) else body
        return alice.http.post("/v1/message/first", content=content, headers=kind)

    answer, took = timed(ask, bob)
    assert answer.status_code == status, answer.text[:300]
    if status != 200:
        assert answer.json()["error"]["code"] in ("invalid_request", "too_large")
        assert not Chat.objects.exists()
    assert took < SECOND


@pytest.mark.promise("P20")
def test_a_chat_of_ten_thousand_turns_is_like_any_other(user_client: Callable[[str], Client]) -> None:
    alice, bob = user_client("alice"), user_client("bob")
    chat = Chat.objects.get(pk=alice.post("chats", json={}).json()["id"])
    add_turns(chat, ((f"Note {at}", f"Noted {at}") for at in range(10_000)))
    for ask in (
        lambda: alice.post("message", json={"message": "And now?", "chat_id": str(chat.pk), "stream": False}),
        lambda: alice.get(f"chats/{chat.pk}/messages", params={"limit": 200}),
        lambda: alice.post(f"chats/{chat.pk}/context", json={"message": "Note 17"}),
        lambda: alice.get(f"chats/{chat.pk}/brief"),
        lambda: alice.get("chats", params={"search": "Note"}),
    ):
        answer, took = timed(ask, bob)
        assert answer.status_code == 200
        assert took < SECOND
