"""Traces between real processes: from a request to the fold that it causes, and a collector that does not answer."""

import signal
import time

import pytest
from django.contrib.auth.models import User

from tests.processes.talking import LOW, say, settled, talk
from tests.support.fakes.collector import Collector
from tests.support.fakes.upstream import FakeUpstream
from tests.support.processes import Product
from tests.support.waiting import wait_for

pytestmark = pytest.mark.processes


def end(product: Product) -> float:
    """Tell all processes to stop, and return how many seconds that took."""
    began = time.monotonic()
    for child in product.children:
        child.process.send_signal(signal.SIGTERM)
    for child in product.children:
        assert child.process.wait(60) in (0, -signal.SIGTERM)
    return time.monotonic() - began


@pytest.mark.exhaustive
def test_trace_spans_request_and_fold(product: Product, fake: FakeUpstream) -> None:
    with Collector() as collector:
        product.env |= LOW | collector.env
        product.worker()
        product.server()
        client = product.client()
        chat_id, _ = talk(client, range(9), patient=True)
        wait_for(lambda: settled(chat_id), "memory at rest")
        wait_for(lambda: collector.named("upsert_memory"), "the span of a fold")
        say(client, "The last question", chat_id)
        end(product)  # what is not sent yet is sent now
    spans = {span.id: span for span in collector.spans}
    fold = collector.named("upsert_memory")[0]
    (call,) = [span for span in collector.named("chat gpt-5-nano") if span.parent == fold.id]
    request = spans[fold.parent]
    (reply,) = [span for span in collector.named("chat gpt-5-mini") if span.parent == request.id]
    assert request.name == "POST /v1/message"
    assert fold.trace == call.trace == reply.trace == request.trace
    assert {span.process["service.name"] for span in spans.values()} == {"chatmemory"}
    processes = [span.process["service.instance.id"] for span in (request, fold)]
    assert len(set(processes)) == 2
    assert len(collector.named("chat gpt-5-mini")) == 10
    # The logs name both.
    (finished,) = [line for line in product.logged("reply finished") if line["trace_id"] == fold.trace]
    folded = product.logged("memory folded", name="worker")[0]
    assert (folded["trace_id"], folded["span_id"]) == (fold.trace, fold.id)
    assert folded["request_id"] == finished["request_id"]
    assert finished["user"] == User.objects.get(username="alice").pk
    assert 0 <= finished["first_token_ms"] <= finished["duration_ms"] < 60_000


@pytest.mark.slow
def test_a_collector_that_hangs_delays_neither_replies_nor_the_end(product: Product, fake: FakeUpstream) -> None:
    with Collector(hangs=True) as collector:
        product.env |= collector.env
        product.worker()
        product.server()
        client = product.client()
        product.expected = {"Failed to export spans batch due to timeout, max retries or shutdown."}
        chat_id, _ = talk(client, range(1))
        wait_for(lambda: collector.requests, "a request that the collector does not answer")
        began = time.monotonic()
        talk(client, range(1, 6), chat_id)
        assert time.monotonic() - began < 5
        assert end(product) < 10
