"""One key means one message, one upstream call and one answer: at two servers at once, and after one was killed."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle

import pytest

from conversations.models import Chat
from tests.api.talking import error, hold_replies
from tests.faults.bench.two import Two
from tests.support.live_server import Client
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

AT_ONCE = 50
KEY = {"Idempotency-Key": "key-1"}


@pytest.mark.promise("P2", "P3")
def test_two_bodies_with_one_key_store_one(two: Two) -> None:
    both = two.clients()
    hold_replies(two.fake)

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
