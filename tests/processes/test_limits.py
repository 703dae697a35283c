"""A user's limits across all processes: the number let in is exact, and a crash leaves correct totals."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User

from conversations.accounts.models import Allowance, PassingCall
from conversations.models import ActiveReply, Chat, IdempotencyKey, Message
from tests.support.exhaustive import effort
from tests.support.fakes.upstream import FakeUpstream
from tests.support.fault_points import faults
from tests.support.live_server import Client, joined
from tests.support.processes import Product
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SERVERS, AT_ONCE, LIMIT = 2, 100, 5
"""Each server has two processes."""
ON = {
    "RATE_LIMITS": "on",
    "LIMIT_REQUESTS_PER_MINUTE": "0",
    "LIMIT_TOKENS_PER_DAY": "0",
    "LIMIT_STREAMS": "0",
}
RESERVED = 1000
LIMITS = {
    "requests": ({"requests_per_minute": LIMIT}, "rate_limited", 60),
    # Five prompts of a few tokens fit beside the reservations for five answers, a sixth answer does not.
    "tokens": ({"tokens_per_day": (LIMIT + 1) * RESERVED - 1}, "quota_exceeded", 2),
    "streams": ({"streams": LIMIT}, "rate_limited", 2),
}
"""A user's limits, the error code of refusals, and their maximum wait in seconds."""
FIRST = ("/v1/message/first", {"message": "Hello"})
ASK = ("/v1/ask", {"messages": [{"role": "user", "content": "Hello"}]})


@contextmanager
def at_once(clients: list[Client]) -> Iterator[list[httpx.Response]]:
    """Yield all answers to simultaneous requests, half of them turns, half stored nowhere; they continue on exit.

    Requests that were let in are read to the end when the context is left.
    """
    gate, left = threading.Barrier(AT_ONCE), threading.Event()
    answers: list[httpx.Response] = []

    def send(number: int) -> None:
        path, body = (FIRST, ASK)[number // SERVERS % 2]
        http = clients[number % SERVERS].http
        gate.wait(30)
        with http.stream("POST", path, json=body, headers={"Idempotency-Key": f"key {number}"}) as answer:
            if answer.status_code != 200:
                answer.read()
            answers.append(answer)
            left.wait(60)
            answer.read()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        calls = [pool.submit(send, number) for number in range(AT_ONCE)]
        try:
            wait_for(
                lambda: len(answers) == AT_ONCE or any(call.done() for call in calls),
                "an answer to every request",
                timeout=60,
            )
            assert [call.exception() for call in calls if call.done()] == []
            yield answers
        finally:
            left.set()
        for call in calls:
            call.result(60)


@pytest.mark.promise("P22")
def test_100_requests_at_once_against_a_limit_of_5(product: Product, fake: FakeUpstream) -> None:
    product.env |= ON | {"LIMIT_OUTPUT_TOKENS_RESERVED": str(RESERVED)}
    for _ in range(SERVERS):
        product.server("--workers", "2")
    for name, (own, code, seconds) in LIMITS.items():
        fake.reset()
        fake.hold()
        clients = [Client(url, product.client(name).token) for url in product.urls.values()]
        user = User.objects.get(username=name)
        Allowance.objects.create(user=user, **own)

        with at_once(clients) as answers:
            fake.wait_until(lambda upstream: upstream.held("stream") == LIMIT)
            assert sorted(answer.status_code for answer in answers) == [*[200] * LIMIT, *[429] * 95]
            for refused in (answer for answer in answers if answer.status_code == 429):
                assert refused.json()["error"]["code"] == code
                assert 1 <= int(refused.headers["retry-after"]) <= seconds
            _only_what_was_let_in(user)
            fake.release()

        wait_for(partial(_is_settled, user), "all settled")
        assert len(fake.requests) == LIMIT
        assert Message.objects.filter(chat__owner=user, status="complete", role="assistant").count() == (
            Chat.objects.filter(owner=user).count()
        )
        for client in clients:
            client.http.close()


def _only_what_was_let_in(user: User) -> None:
    """Assert that there are rows of five calls, and of no others."""
    replies = ActiveReply.objects.filter(chat__owner=user).count()
    assert replies + PassingCall.objects.filter(user=user).count() == LIMIT
    assert Chat.objects.filter(owner=user).count() == replies
    assert Message.objects.filter(chat__owner=user).count() == replies
    assert IdempotencyKey.objects.filter(user=user).count() == replies
    row = Allowance.objects.get(pk=user.pk)
    assert (row.open_streams, row.minute_requests) == (LIMIT, LIMIT)
    assert LIMIT * RESERVED < row.day_reserved < (LIMIT + 1) * RESERVED


def _is_settled(user: User) -> bool:
    row = Allowance.objects.get(pk=user.pk)
    return row.open_streams == 0 and row.day_reserved == 0


POINTS = (
    "generate.delta",
    "begin.stored",
    "begin.committed",
    "generate.started",
    "generate.ended",
    "finish.stored",
    "finish.committed",
)
"""Points at which a server is killed during a turn; the short form uses only the first ones."""


@pytest.mark.promise("P22")
def test_reservations_of_a_killed_server_are_settled(product: Product, fake: FakeUpstream) -> None:
    product.env |= ON | {"REPLY_LEASE_SECONDS": "1", "REPLY_CHECKPOINT_SECONDS": "0.05"}
    product.server()
    own: dict[str, Any] = {"streams": 1, "tokens_per_day": 10_000}
    for point in POINTS[: effort(2, len(POINTS))]:
        struck = product.folder / point
        (order := product.folder / f"{point}.order").write_text(f"{point}:1:kill:{struck}")
        doomed = product.server(**faults(order))
        client = product.client(point)
        user = User.objects.get(username=point)
        Allowance.objects.create(user=user, **own)
        with pytest.raises(httpx.HTTPError):
            client.ask("Hello")
        assert struck.exists()

        # Every server looks for what others left as often as a lease lasts.
        wait_for(partial(_is_settled, user), f"what was held at {point} is settled")
        product.kill(doomed)
        del product.urls[doomed.name]
        row = Allowance.objects.get(pk=user.pk)
        says = [message.status for message in Message.objects.filter(chat__owner=user, role="assistant")]
        assert (row.day_tokens > 0) == any(status != "failed" for status in says)
        assert row.minute_requests == sum(status != "failed" for status in says)
        again = product.client(point)
        assert joined(again.events("POST", "message/first", json={"message": "Hello"}))
