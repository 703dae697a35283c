"""The soak test's canaries are noticed wherever they do not belong, however an answer is split."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from tests.faults.bench.canaries import Canaries, Watched
from tests.support.fakes.connection import Request


@pytest.fixture
def canaries() -> Canaries:
    return Canaries()


def asked(*texts: str) -> Request:
    body = {"input": [{"role": "user", "content": text} for text in texts], "stream": True}
    return Request("/v1/responses", {}, json.dumps(body).encode(), body)


class Parts(httpx.SyncByteStream):
    """An answer that arrives in these parts."""

    def __init__(self, *parts: str) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[bytes]:
        return (part.encode() for part in self._parts)


def test_ones_own_are_no_problem(canaries: Canaries) -> None:
    one, other = canaries.new("ada"), canaries.new("ada")
    canaries.answered("ada", f"{one} and {other}".encode())
    canaries.asked(asked("hello", f"{one}?"))
    canaries.stored([("ada", "1", [one]), ("ada", "2", [other])])
    assert canaries.problems == []
    assert canaries.prompts == 1


@pytest.mark.parametrize("at", [1, 2, 10, 20])
def test_anothers_is_found_wherever_an_answer_is_cut(canaries: Canaries, at: int) -> None:
    canary = canaries.new("ada")
    for user in ("ada", "eve"):
        heard = b"".join(Watched(Parts("so: " + canary[:at], canary[at:] + "!"), user, canaries))
        assert heard.decode() == f"so: {canary}!"
    assert canaries.problems == ["eve was sent a canary of ada"]


def test_a_prompt_with_two_or_none_is_found(canaries: Canaries) -> None:
    one, other = canaries.new("ada"), canaries.new("ada")
    canaries.asked(asked(one, other))
    canaries.asked(asked("hello"))
    assert len(canaries.problems) == 2


def test_one_stored_with_another_chat_is_found(canaries: Canaries) -> None:
    adas, eves = canaries.new("ada"), canaries.new("eve")
    canaries.stored([("ada", "1", [adas]), ("eve", "2", [adas, eves])])
    assert canaries.problems == ["chat 2 of eve holds 2 canaries", "chats 2 and 1 hold the same canary"]
