"""One key means one message, one upstream call and one answer: at two servers at once, and after one was killed."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle

import pytest

from conversations.models import ActiveReply, Chat
from tests.api.talking import Turn, error, heard, held
from tests.faults.bench.two import Two
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, joined
from tests.support.processes import Product
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

AT_ONCE = 50
KEY = {"Idempotency-Key": "key-1"}


@pytest.mark.promise("P2", "P3")
def test_of_two_bodies_at_once_one_is_taken(two: Two) -> None:
    both = two.clients()
    held(two.fake)

    def send(client: Client, message: str) -> int:
        body = {"message": message, "stream": False}
        answer = client.post("message/first", json=body, headers=KEY)
        if answer.status_code != 200:
            error(answer, 422, "idempotency_mismatch")
        return int(answer.status_code)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        turns = zip(cycle(both), cycle(["one", "one", "other", "other"]), range(AT_ONCE))
        sent = [pool.submit(send, client, message) for client, message, _ in turns]
        wait_for(lambda: sum(one.done() for one in sent) >= AT_ONCE // 2 - 1)
        two.fake.release()
        codes = Counter(one.result() for one in sent)
    assert set(codes) == {200, 422}
    assert min(codes.values()) >= AT_ONCE // 2 - 1
    assert Chat.objects.count() == len(two.fake.calls("stream")) == 1


@pytest.mark.promise("P2")
def test_after_a_restart_the_key_still_knows_its_turn(product: Product, fake: FakeUpstream) -> None:
    product.env |= {"REPLY_CHECKPOINT_SECONDS": "0.1", "REPLY_LEASE_SECONDS": "1", "LOG_LEVEL": "INFO"}
    server = product.server()
    client = product.client()
    whole = client.post("message/first", json={"message": "x", "stream": False}, headers=KEY).json()
    held(fake)
    half = {"json": {"message": "y"}, "headers": {"Idempotency-Key": "key-2"}}
    with client.stream("POST", "message/first", **half) as events:
        turn = Turn.of(next(events).data)
        said = heard(events)
        wait_for(lambda: client.get(turn.path).json()["content"] == said)
        product.kill(server)
    calls = len(fake.calls("stream"))
    fake.release()

    product.server()
    again = product.client()
    answer = again.post("message/first", json={"message": "x", "stream": False}, headers=KEY)
    assert answer.json() == whole
    error(again.post("message/first", json={"message": "z"}, headers=KEY), 422, "idempotency_mismatch")
    wait_for(lambda: not ActiveReply.objects.exists())
    rest = again.events("POST", "message/first", **half)
    assert Turn.of(rest[0].data) == turn
    assert (rest[-1].name, rest[-1].data["error"]["code"]) == ("message.incomplete", "interrupted")
    assert joined(rest) == rest[-1].data["message"]["content"] == said
    assert len(fake.calls("stream")) == calls
