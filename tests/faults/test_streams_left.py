"""Clients that leave, return and read with others: the reply goes on, and everyone reads the stored text once."""

from __future__ import annotations

import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.api.talking import Turn, final
from tests.faults.bench.cuts import answer
from tests.faults.bench.garbage import often
from tests.faults.bench.two import Two
from tests.support.exhaustive import effort
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, Event, joined, parse_events
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SAID = answer("responses")
DELTAS = len(SAID.ends)
WHOLE = SAID.texts[-1]
WORDS = 60_000


@dataclass(frozen=True)
class Pair:
    """Two servers on one database, and the upstream of both."""

    here: Client
    there: Client
    fake: FakeUpstream
    chats: list[str]

    def leave(self, deltas: int, *, reset: bool) -> Turn:
        """Begin a turn whose reply pauses after that many deltas, read them, and close the connection."""
        self.fake.behave(SAID.held(deltas), lane="stream")
        self.fake.hold()
        body = {"message": "My question", **({"chat_id": self.chats[-1]} if self.chats else {})}
        path = "/v1/message" if self.chats else "/v1/message/first"
        with self.here.http.stream("POST", path, json=body) as response:
            if reset:
                found: socket.socket = response.extensions["network_stream"].get_extra_info("socket")
                found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            events = parse_events(response.iter_lines())
            turn = Turn.of(next(events).data)
            self.chats.append(turn.chat)
            heard = ""
            while len(heard) < len(SAID.certain(deltas)):
                heard += next(events).data["delta"]
        assert heard == SAID.certain(deltas)
        return turn

    def resume(self, turn: Turn, splits: tuple[int, int]) -> None:
        """Read with two clients at once, one at each server, each from its own position, while the rest is written."""
        with ThreadPoolExecutor(2) as pool:
            readers = [
                pool.submit(client.events, "GET", f"{turn.path}/stream", params={"after": after})
                for client, after in zip((self.here, self.there), splits, strict=True)
            ]
            self.fake.release()
            for reader, after in zip(readers, splits, strict=True):
                _is_the_rest(reader.result(), after)
        for client in (self.here, self.there):
            stored = final(client, turn)
            assert (stored["status"], stored["content"]) == ("complete", WHOLE)


def _is_the_rest(events: list[Event], after: int) -> None:
    assert joined(events) == WHOLE[after:]
    assert (events[0].name == "message.created") == (after == 0)
    assert (events[-1].name, events[-1].id) == ("message.completed", str(len(WHOLE)))
    assert events[-1].data["message"]["content"] == WHOLE
    ids = [int(event.id or 0) for event in events if event.name == "content.delta"]
    assert ids == sorted(set(ids))


@pytest.fixture
def pair(two: Two) -> Pair:
    return Pair(*two.clients(), two.fake, [])


@pytest.mark.promise("P5")
def test_whoever_leaves_at_any_event_finds_it_all(pair: Pair) -> None:
    chance = Random(5)
    for deltas in range(0, DELTAS + 1, effort(2, 1)):
        turn = pair.leave(deltas, reset=bool(deltas % 4 < 2))
        known = len(SAID.certain(deltas))
        pair.resume(turn, (known, chance.randint(0, known)))
    assert len(pair.fake.calls("stream")) == len(range(0, DELTAS + 1, effort(2, 1))), "reading starts no call"


@pytest.mark.promise("P5")
def test_any_position_gives_the_rest_without_gap_or_repetition(pair: Pair) -> None:
    positions = st.integers(0, len(WHOLE) + 3)

    @often(effort(12, 300))
    @given(deltas=st.integers(0, DELTAS), splits=st.tuples(positions, positions), reset=st.booleans())
    def one(deltas: int, splits: tuple[int, int], reset: bool) -> None:
        pair.resume(pair.leave(deltas, reset=reset), splits)

    one()


@pytest.mark.promise("P5")
def test_a_reader_that_is_stuck_keeps_nobody_waiting(pair: Pair) -> None:
    """Its socket is never read: the server's writes to it block, the reply and its other readers go on."""
    pair.fake.behave("normal", lane="stream", deltas=WORDS)
    host, port = pair.here.base.removeprefix("http://").split(":")
    with socket.socket() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect((host, int(port)))
        stuck.sendall(_request(pair.here.token, b'{"message": "A long one"}'))
        chat = wait_for(lambda: pair.here.get("chats").json()["results"])[0]["id"]
        reply = wait_for(lambda: pair.here.get(f"chats/{chat}/messages").json()["results"][1:])[0]
        events = pair.there.events("GET", f"chats/{chat}/messages/{reply['id']}/stream")
    assert events[-1].name == "message.completed"
    assert len(joined(events).split()) == WORDS


def _request(token: str, body: bytes) -> bytes:
    head = (
        "POST /v1/message/first HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Authorization: Bearer {token}",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join([*head, "", ""]).encode() + body
