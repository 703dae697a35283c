"""The logs at their most verbose level: every promised figure, and never a word that people said."""

from __future__ import annotations

import json
import logging
from uuid import UUID

import pytest
from django.test import RequestFactory

from chatmemory.runtime.logs import logging_config
from conversations.models import Message, Status
from memory.models import SummaryRevision
from tests.processes.talking import LOW, say, settled
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client
from tests.support.processes import KEY, Product
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

CANARY = "canary-7f3a"
TURNS = 9
FIGURES = ("turns", "tokens_before", "tokens_after", "call_ms", "write_ms", "cost_usd", "version")


def spoken(place: str, words: int = 150) -> str:
    """Return text for that place, which must not appear elsewhere."""
    return f"{CANARY}-{place} " + "and so on " * words


def test_djangos_request_lines_leave_out_the_query() -> None:
    formatter = logging_config("json", "DEBUG")["formatters"]["structured"]["()"]()
    record = logging.makeLogRecord(
        {"name": "django.request", "msg": "Service Unavailable: %s", "args": ("/v1",)}
    )
    record.request = RequestFactory().get("/v1", {"message": CANARY})
    line = formatter.format(record)
    assert json.loads(line)["event"] == "Service Unavailable: /v1"
    assert CANARY not in line


@pytest.mark.promise("P27")
def test_logs_have_figures_and_ids_but_no_message_text(product: Product, fake: FakeUpstream) -> None:
    product.env |= LOW | {"MEMORY_FOLD_BACKOFF_SECONDS": "0.1"}
    product.expected = {"Bad Gateway: /v1/message"}
    product.worker()
    product.server()
    client = product.client()
    chat_id = _chat(client)
    for turn in range(TURNS):
        client.http.headers["X-Request-ID"] = f"turn-{turn:04}"
        say(client, spoken(f"turn{turn}"), chat_id)
        wait_for(lambda: settled(chat_id), "a fold between turns")
    _failures(product, fake, client, chat_id)
    _refusals(client, chat_id)
    product.stop()

    _all_is_json(product)
    _every_fold_is_told(product, chat_id)
    _every_failure_is_told(product, fake)
    _one_id_all_the_way(product)
    _nothing_said_is_told(product, client)


def _chat(client: Client) -> UUID:
    body = {"title": spoken("title", 5), "instructions": spoken("instructions"), "metadata": {"a": CANARY}}
    made = client.post("chats", json=body)
    assert made.status_code == 201
    return UUID(made.json()["id"])


def _failures(product: Product, fake: FakeUpstream, client: Client, chat_id: UUID) -> None:
    """Make one reply fail and cut one off; the summarizer fails once with an error that quotes the text."""
    fake.script("stream", "status?code=500", "failed?error=server_error")
    body = {
        "chat_id": str(chat_id),
        "stream": False,
        "sources": [{"title": CANARY, "text": spoken("source")}],
    }
    for status in (Status.FAILED, Status.INCOMPLETE):
        client.post("message", json={**body, "message": spoken("failing")})
        assert Message.objects.filter(chat=chat_id, status=status).exists()
    fake.script("complete", "status?code=400")
    client.post(f"chats/{chat_id}/resummarize", json={"mode": "update"})
    wait_for(lambda: product.logged("memory fold failed"), "a fold that fails")


def _refusals(client: Client, chat_id: UUID) -> None:
    """Send requests whose refusals give the reason to the client, not to the logs."""
    assert client.post("message", json={"message": "", CANARY: CANARY}).status_code == 400
    assert client.post("message", content=f'{{"message": "{CANARY}').status_code in (400, 415)
    assert client.post(f"chats/{chat_id}/context", json={"message": CANARY}).status_code == 200
    assert client.get(f"chats?search={CANARY}").status_code in (200, 400)


def _all_is_json(product: Product) -> None:
    for path in product.folder.glob("*.log"):
        for line in path.read_text().splitlines():
            assert isinstance(json.loads(line), dict), f"{path.name}: {line}"


def _every_fold_is_told(product: Product, chat_id: UUID) -> None:
    lines = product.logged("memory folded")
    revisions = list(SummaryRevision.objects.filter(chat=chat_id).order_by("version"))
    assert len(revisions) >= 3
    assert [line["version"] for line in lines] == [one.version for one in revisions]
    for line, one in zip(lines, revisions, strict=True):
        assert set(FIGURES) <= set(line)
        assert (line["turns"], line["tokens_before"]) == (one.turns, one.tokens_before)
        assert (line["tokens_after"], line["call_ms"]) == (one.tokens_after, one.duration_ms)
        assert line["chat"] == str(chat_id)


def _every_failure_is_told(product: Product, fake: FakeUpstream) -> None:
    """Assert the logs of three failed calls, one of them the summarizer's."""
    failed = product.logged("upstream failed")
    assert [line["status"] for line in failed if line["variant"] == "arco"] == [500, None]
    assert all(line["code"] and line["duration_ms"] >= 0 for line in failed)
    (fold,) = product.logged("memory fold failed")
    assert fold["code"]
    assert fold["attempt"] == 1
    assert fold["next_attempt_in"] > 0
    summarizer = [line for line in failed if line["variant"] == "summarizer"]
    assert [line["status"] for line in summarizer] == [400]


def _one_id_all_the_way(product: Product) -> None:
    """Assert that the fold's log line has the id of the request that made it due, like its reply's.

    A worker sweeps when it starts; if that comes late, it finds a due chat, which no request made due.
    """
    requested = {line["request_id"] for line in product.logged("request", name="server")}
    turns = {f"turn-{turn:04}" for turn in range(TURNS)}
    assert turns <= requested
    folds = product.logged("memory folded", name="worker")
    asked_for = [line["request_id"] for line in folds if "request_id" in line]
    assert len(asked_for) >= len(folds) - 1 >= 1
    assert set(asked_for) <= turns
    assert {line["request_id"] for line in product.logged("reply finished", name="server")} >= turns
    (failed,) = product.logged("memory fold failed", name="worker")
    assert failed["request_id"] in requested


def _nothing_said_is_told(product: Product, client: Client) -> None:
    text = product.log_text()
    for secret in (CANARY, KEY, "sk-leak", client.token, "and so on"):
        assert secret not in text
