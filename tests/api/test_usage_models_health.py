"""Usage, the models to choose from, and the server's health."""

import dataclasses
import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx
import pytest
from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.functions import Now
from django.utils import timezone
from django_q.models import Failure

from chatmemory.database import executors
from chatmemory.llm.protocol import Price
from conversations.models import Message
from memory import probes, queue
from memory.models import Worker
from tests.api.talking import error, say
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, LiveServer


def test_usage_adds_up_by_day_and_variant(alice: Client, bob: Client, upstream: FakeUpstream) -> None:
    replies = [alice.ask("one"), alice.ask("two"), alice.ask("three", model_variant="arco-pro")]
    upstream.script("stream", "status?code=500")
    say(alice, "free of charge")
    bob.ask("not hers")
    rows = alice.get("usage").json()["results"]
    today = datetime.now(UTC).date().isoformat()
    counted = [(row["date"], row["model_variant"], row["replies"]) for row in rows]
    assert counted == [(today, "arco", 2), (today, "arco-pro", 1)]
    for name in ("input_tokens", "cached_tokens", "output_tokens", "cost_usd"):
        told = sum(reply["message"]["usage"][name] for reply in replies)
        assert sum(row[name] for row in rows) == pytest.approx(told)
    assert set(rows[0]) == {
        *("date", "model_variant", "replies", "input_tokens", "cached_tokens", "output_tokens", "cost_usd")
    }


def test_usage_of_some_days(alice: Client, upstream: FakeUpstream) -> None:
    alice.ask("old")
    Message.objects.update(completed_at=datetime.now(UTC) - timedelta(days=3))
    alice.ask("new")
    now = datetime.now(UTC)

    def days(**query: Any) -> list[str]:
        found = alice.get("usage", params={name: day.isoformat() for name, day in query.items()})
        return [row["date"] for row in found.json()["results"]]

    old, new = (now - timedelta(days=3)).date().isoformat(), now.date().isoformat()
    assert days() == [old, new]
    assert days(since=now - timedelta(days=1)) == [new]
    assert days(until=now - timedelta(days=1)) == [old]
    assert days(since=now, until=now - timedelta(days=1)) == []


def test_cost_is_tokens_times_price(alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    price = Price(input=Decimal(2), cached=Decimal(1), output=Decimal(8))
    variants = {name: dataclasses.replace(v, price=price) for name, v in settings.MODEL_VARIANTS.items()}
    settings.MODEL_VARIANTS = variants
    usage = alice.ask("x" * 400)["message"]["usage"]
    fresh = usage["input_tokens"] - usage["cached_tokens"]
    expected = (fresh * 2 + usage["cached_tokens"] * 1 + usage["output_tokens"] * 8) / 1_000_000
    assert usage["cost_usd"] == pytest.approx(expected)
    settings.MODEL_VARIANTS = {name: dataclasses.replace(variant, price=None) for name, variant in variants.items()}
    assert alice.ask("x")["message"]["usage"]["cost_usd"] is None


def test_without_an_upstream_the_built_in_model_answers(alice: Client) -> None:
    assert alice.get("models").json()["offline"] is True
    message = alice.ask("My booking is AB-1234.")["message"]
    assert (message["model"], message["status"], message["model_variant"]) == ("offline", "complete", "arco")
    assert message["usage"]["cost_usd"] == 0
    assert "offline" in message["content"]


def a_worker_answered(seconds_ago: float = 0) -> None:
    """Record a sign of life, as a worker does."""
    at = Now() - timedelta(seconds=seconds_ago)
    Worker.objects.update_or_create(pk="a worker", defaults={"seen_at": at})


def test_the_process_is_up_and_ready(live: LiveServer) -> None:
    a_worker_answered()
    assert httpx.get(f"{live.url}/healthz").json() == {"status": "ok"}
    ready = httpx.get(f"{live.url}/readyz")
    parts = ("database", "migrations", "queue", "worker")
    assert ready.json() == {"status": "ok", "parts": dict.fromkeys(parts, "ok")}
    assert httpx.head(f"{live.url}/healthz").status_code == 200
    assert httpx.head(f"{live.url}/readyz").status_code == 200
    assert httpx.post(f"{live.url}/readyz").status_code == 405
    for path, status in (("healthz", 200), ("readyz", 200), ("admin/login/", 400)):
        by_address = httpx.get(f"{live.url}/{path}", headers={"Host": "10.0.0.7:8000"})
        assert by_address.status_code == status, path
        assert ("DJANGO_ALLOWED_HOSTS lists" in by_address.text) == (status == 400)


def test_without_a_worker_it_is_not_ready(live: LiveServer) -> None:
    told = error(httpx.get(f"{live.url}/readyz"), 503, "unavailable")
    assert told["message"] == "Not ready: worker."
    assert told["details"] == {"worker": ["No worker is running: start `manage.py worker`."]}
    a_worker_answered(seconds_ago=31)
    assert httpx.get(f"{live.url}/readyz").status_code == 503
    a_worker_answered(seconds_ago=25)
    assert httpx.get(f"{live.url}/readyz").status_code == 200


def test_readiness_reports_failing_sweep(live: LiveServer) -> None:
    a_worker_answered()
    for number in range(3):
        assert httpx.get(f"{live.url}/readyz").status_code == 200
        now = timezone.now()
        Failure.objects.create(
            id=f"{number:032}", name="sweep", func=queue.SWEEP_TASK, started=now, stopped=now, success=False
        )
    told = error(httpx.get(f"{live.url}/readyz"), 503, "unavailable")
    why = "The sweep failed 3 times in the last 15 minutes; the worker's log says why."
    assert told["details"] == {"worker": [why]}
    Failure.objects.update(stopped=timezone.now() - timedelta(minutes=16))
    assert httpx.get(f"{live.url}/readyz").status_code == 200


def test_readiness_is_asked_however_many_stateless_calls_run(live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    a_worker_answered()
    monkeypatch.setattr(executors, "_room", threading.Semaphore(0))
    assert httpx.get(f"{live.url}/readyz").status_code == 200


def test_readiness_reports_hanging_database(
    alice: Client, live: LiveServer, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many requests ask for it, only one thread waits, and chats continue."""
    a_worker_answered()
    asked, answers = [], threading.Event()

    def hang() -> None:
        asked.append(threading.current_thread())
        assert answers.wait(20)

    with monkeypatch.context() as patched:
        patched.setitem(probes.PARTS, "queue", hang)
        patched.setattr(probes, "MAX_WAIT_SECONDS", 0.2)
        for _ in range(3):
            told = error(httpx.get(f"{live.url}/readyz"), 503, "unavailable")
            assert told["details"] == {"queue": ["does not answer"]}
        assert len(asked) == 1
        assert alice.ask("x")["message"]["status"] == "complete"
        answers.set()
        asked[0].join(10)
    assert httpx.get(f"{live.url}/readyz").status_code == 200


def test_with_the_database_away(
    alice: Client, live: LiveServer, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(self: BaseDatabaseWrapper) -> None:
        raise OperationalError("could not connect to canary-host")

    a_worker_answered()
    with monkeypatch.context() as patched:
        patched.setattr(BaseDatabaseWrapper, "connect", away)
        assert httpx.get(f"{live.url}/healthz").status_code == 200
        told = error(httpx.get(f"{live.url}/readyz"), 503, "unavailable")
        assert set(told["details"]) == {"database", "queue", "worker"}
        answer = alice.get("chats")
        error(answer, 503, "unavailable")
        assert int(answer.headers["retry-after"]) >= 1
        assert "canary" not in answer.text
    assert httpx.get(f"{live.url}/readyz").status_code == 200
    assert alice.ask("x")["message"]["status"] == "complete"


def test_every_answer_has_a_request_id(alice: Client, live: LiveServer) -> None:
    for given, kept in (("a-request_1.x", True), ("short", False), ("x" * 65, False), ("a b c d e", False)):
        for path in ("chats", "nothing", "/healthz"):
            told = alice.get(path, headers={"X-Request-ID": given}).headers["x-request-id"]
            assert (told == given) is kept
            assert 8 <= len(told) <= 64
    anonymous = [httpx.get(f"{live.url}/v1/chats").headers["x-request-id"] for _ in range(2)]
    assert anonymous[0] != anonymous[1]
