"""Clients that leave, return and read with others: the reply goes on, and everyone reads the stored text once."""

import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from tests.api.talking import Turn, final
from tests.faults.bench.cuts import answer
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


@pytest.mark.promise("P5")
def test_leaving_at_any_event_loses_nothing(two: Two) -> None:
    """Two return at once, one at each server, each to a position of its own, also one in the future."""
    here, there = two.clients()
    chance, chat = Random(5), None
    cases = range(0, DELTAS + 1, effort(2, 1))
    for deltas in cases:
        turn = leave(here, two.fake, chat, deltas, reset=bool(deltas % 4 < 2))
        chat, known = turn.chat, len(SAID.certain(deltas))
        readers = [(here, known), (there, chance.choice([chance.randint(0, known), len(WHOLE) + 3]))]
        with ThreadPoolExecutor(2) as pool:
            reading = [
                pool.submit(client.events, "GET", f"{turn.path}/stream", params={"after": after})
                for client, after in readers
            ]
            two.fake.release()
            for (_, after), reader in zip(readers, reading, strict=True):
                is_the_rest(reader.result(), after)
        for client, _ in readers:
            stored = final(client, turn)
            assert (stored["status"], stored["content"]) == ("complete", WHOLE)
    assert len(two.fake.calls("stream")) == len(cases), "reading starts no call"


def leave(client: Client, fake: FakeUpstream, chat: str | None, deltas: int, *, reset: bool) -> Turn:
    """Begin a turn whose reply pauses after that many deltas, read them, and close the connection."""
    fake.behave(SAID.held(deltas), lane="stream")
    fake.hold()
    body = {"message": "My question", **({"chat_id": chat} if chat else {})}
    path = "/v1/message" if chat else "/v1/message/first"
    with client.http.stream("POST", path, json=body) as response:
        if reset:
            found: socket.socket = response.extensions["network_stream"].get_extra_info("socket")
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        events = parse_events(response.iter_lines())
        turn = Turn.of(next(events).data)
        heard = ""
        while len(heard) < len(SAID.certain(deltas)):
            heard += next(events).data["delta"]
    assert heard == SAID.certain(deltas)
    return turn


def is_the_rest(events: list[Event], after: int) -> None:
    assert joined(events) == WHOLE[after:]
    assert (events[0].name == "message.created") == (after == 0)
    assert (events[-1].name, events[-1].id) == ("message.completed", str(len(WHOLE)))
    assert events[-1].data["message"]["content"] == WHOLE
    ids = [int(event.id or 0) for event in events if event.name == "content.delta"]
    assert ids == sorted(set(ids))


@pytest.mark.promise("P5")
def test_stuck_reader_delays_no_others(two: Two) -> None:
    """Its socket is never read: the server's writes to it block, the reply and its other readers go on."""
    here, there = two.clients()
    two.fake.behave("normal", lane="stream", deltas=WORDS)
    host, port = here.base.removeprefix("http://").split(":")
    body = b'{"message": "A long one"}'
    head = (
        "POST /v1/message/first HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Authorization: Bearer {here.token}",
        f"Content-Length: {len(body)}",
    )
    with socket.socket() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect((host, int(port)))
        stuck.sendall("\r\n".join([*head, "", ""]).encode() + body)
        chat = wait_for(lambda: here.get("chats").json()["results"])[0]["id"]
        reply = wait_for(lambda: here.get(f"chats/{chat}/messages").json()["results"][1:])[0]
        events = there.events("GET", f"chats/{chat}/messages/{reply['id']}/stream")
    assert events[-1].name == "message.completed"
    assert len(joined(events).split()) == WORDS
