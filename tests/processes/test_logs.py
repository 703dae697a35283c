"""The logs at their most verbose level: the id of a request all the way, and never a word that people said.

Then errors everywhere, each with message text in it: the database quotes the row that it refuses, as PostgreSQL does by
itself.
"""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test import RequestFactory
from django_q.models import Task
from django_q.tasks import async_task

from chatmemory.runtime.logs import logging_config
from conversations.models import ActiveReply, Message, Status
from memory.models import ConversationBrief
from memory.queue import FOLD_TASK
from tests.processes.talking import LOW, say, settled
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client
from tests.support.processes import KEY, ROOT, Product
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

CANARY = "canary-7f3a"
PASSWORD = "canary-password-91c2"
TURNS = 9
QUICK = {"MEMORY_FOLD_BACKOFF_SECONDS": "0.1", "REPLY_CHECKPOINT_SECONDS": "0.1", "REPLY_LEASE_SECONDS": "1"}
TABLES = {
    "memory_summaryrevision": "INSERT",
    "conversations_message": "INSERT",
    "conversations_activereply": "UPDATE",
    "memory_contextrecord": "INSERT",
}
"""The tables that refuse rows, one after the other, and the statement that each refuses."""


@contextmanager
def refusing(table: str, act: str) -> Iterator[None]:
    """Make the table refuse every row inside the context, with an error that quotes message text."""
    name = f"refuse_{table}"
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            body = f"BEGIN SELECT RAISE(ABORT, '{CANARY} is refused'); END"
            cursor.execute(f"CREATE TRIGGER {name} BEFORE {act} ON {table} {body}")
        else:
            body = f"BEGIN RAISE EXCEPTION '{CANARY}: %', NEW::text USING DETAIL = NEW::text; END"
            cursor.execute(f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$")
            cursor.execute(f"CREATE TRIGGER {name} BEFORE {act} ON {table} FOR EACH ROW EXECUTE FUNCTION {name}()")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"DROP TRIGGER {name}" if connection.vendor == "sqlite" else f"DROP FUNCTION {name} CASCADE")


def spoken(place: str, words: int = 150) -> str:
    """Return text for that place, which must not appear elsewhere."""
    return f"{CANARY}-{place} " + "and so on " * words


def test_djangos_request_lines_leave_out_the_query() -> None:
    formatter = logging_config("json", "DEBUG")["formatters"]["structured"]["()"]()
    record = logging.makeLogRecord({"name": "django.request", "msg": "Service Unavailable: %s", "args": ("/v1",)})
    record.request = RequestFactory().get("/v1", {"message": CANARY})
    line = formatter.format(record)
    assert json.loads(line)["event"] == "Service Unavailable: /v1"
    assert CANARY not in line


@pytest.mark.processes
@pytest.mark.promise("P27")
@pytest.mark.parametrize("style", ["json", "console"])
def test_logs_have_ids_but_no_message_text(product: Product, fake: FakeUpstream, style: str) -> None:
    product.env |= LOW | QUICK | {"LOG_FORMAT": style}
    product.worker()
    product.server()
    client = product.client()
    chat_id = _chat(client)
    for turn in range(TURNS):
        client.http.headers["X-Request-ID"] = f"turn-{turn:04}"
        say(client, spoken(f"turn{turn}"), chat_id)
        wait_for(lambda: settled(chat_id), "a fold between turns")
    _failures(product, fake, client, chat_id)
    if style == "json":
        _one_id_all_the_way(product)
    for table, act in TABLES.items():
        with refusing(table, act):
            _upset(client, chat_id)
            if table == "memory_summaryrevision":
                wait_for(lambda: _is_told(product), "a fold that cannot be stored")
        wait_for(lambda: not ActiveReply.objects.exists(), "the end of every reply")
    _failing_task(chat_id)
    _refusals(client, chat_id)
    _command_lines(product, client)
    product.stop()

    text = product.log_text()
    refused = "sqlite_errorname=SQLITE_CONSTRAINT_TRIGGER" if connection.vendor == "sqlite" else "sqlstate=P0001"
    assert refused in text, "the database's errors were not told at all"
    results = "".join(str(task.result) for task in Task.objects.filter(success=False))
    assert "TaskFailed" in results
    for secret in (CANARY, PASSWORD, KEY, "sk-leak", client.token, "and so on"):
        assert secret not in text
        assert secret not in results
    if style == "json":
        assert all(isinstance(json.loads(line), dict) for line in text.splitlines())
    product.expected |= {line["event"] for line in product.errors()}


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
    wait_for(lambda: "memory fold failed" in product.log_text(), "a fold that fails")


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


def _upset(client: Client, chat_id: UUID) -> None:
    """Run everything that writes: turns, streamed and not, a chat, memory. Some of it fails, depending on the table."""
    said = {"message": f"{CANARY} again", "metadata": {"a": CANARY}}
    calls = [
        ("message/first", {**said, "stream": False}),
        (f"chats/{chat_id}/messages", said),
        (f"chats/{chat_id}/resummarize", {"mode": "rebuild"}),
    ]
    for path, body in calls:
        with suppress(httpx.ReadTimeout):  # a reply that cannot be stored is retried
            answer = client.post(path, json=body, timeout=2)
            assert answer.status_code < 500 or CANARY not in answer.text


def _is_told(product: Product) -> bool:
    """Whether the refusal was reported: the fold handles the error of SQLite; that of PostgreSQL ends the task."""
    is_dealt_with = "memory does not fit the database" in product.log_text()
    return is_dealt_with or Task.objects.filter(success=False).exists()


def _failing_task(chat_id: UUID) -> None:
    """Run a task whose first write is refused."""
    failed = Task.objects.filter(success=False)
    before = failed.count()
    ConversationBrief.objects.filter(pk=chat_id).update(queued_at=Now())
    with refusing("memory_conversationbrief", "UPDATE"):
        async_task(FOLD_TASK, str(chat_id))
        wait_for(lambda: failed.count() > before, "a task that fails")


def _refusals(client: Client, chat_id: UUID) -> None:
    """Send input that the server refuses and must not repeat."""
    token = client.http.headers["Authorization"].split()[1]
    client.post("auth/token", json={"username": CANARY, "password": PASSWORD})
    client.post("message", content=f'{{"message": "{CANARY}', headers={"Content-Type": "application/json"})
    client.post("message/first", json={"message": CANARY, CANARY: CANARY})
    client.get("chats", params={"cursor": CANARY, "search": CANARY})
    assert client.post(f"chats/{chat_id}/context", json={"message": CANARY}).status_code == 200
    client.get("models", headers={"Host": f"{CANARY}.example"})
    client.get("models", headers={"Authorization": f"Bearer {token[:8]}{PASSWORD}"})


def _command_lines(product: Product, client: Client) -> None:
    """A list of the machine's processes reveals no secret."""
    if not Path("/proc/self/cmdline").exists():
        return
    lines = [Path(f"/proc/{child.pid}/cmdline").read_text() for child in product.children]
    for secret in (KEY, client.token, product.env["DJANGO_SECRET_KEY"], product.env["DATABASE_URL"]):
        assert all(secret not in line for line in lines)


CRASHES = f"""
import asyncio, gc, logging, sys, threading, warnings
import django
django.setup()
from chatmemory.runtime.logs import log_uncaught_exceptions
log_uncaught_exceptions()

def fail():
    raise ValueError("{CANARY}")

async def forgotten():
    task = asyncio.ensure_future(asyncio.to_thread(fail))
    asyncio.get_running_loop().call_soon(lambda text: fail(), "{CANARY}")
    await asyncio.wait([task])

class Ends:
    def __del__(self):
        fail()

thread = threading.Thread(target=fail)
thread.start()
thread.join()
asyncio.run(forgotten())
gc.collect()
Ends()
warnings.warn("{CANARY}", RuntimeWarning)
logging.getLogger("x").error("%d is a number", "{CANARY}")
try:
    fail()
except ValueError as error:
    group = ExceptionGroup("{CANARY}", [error, KeyError("{CANARY}")])
    group.add_note("{CANARY}")
    logging.getLogger("x").error("grouped", exc_info=group)
fail()
"""


@pytest.mark.promise("P27")
@pytest.mark.parametrize("style", ["json", "console"])
def test_uncaught_exceptions_are_logged_without_message_text(style: str) -> None:
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "chatmemory.settings", "LOG_FORMAT": style}
    done = subprocess.run(
        [sys.executable, "-c", CRASHES],
        cwd=ROOT,
        env=env | {"LOG_LEVEL": "DEBUG"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert CANARY not in done.stderr + done.stdout
    if style == "json":
        events = [json.loads(line)["event"] for line in done.stderr.splitlines()]
        assert events == [
            "uncaught exception",
            "Exception in callback forgotten",
            "Task exception was never retrieved",
            "uncaught exception",
            "warning: RuntimeWarning",
            "a line could not be logged",
            "grouped",
            "uncaught exception",
        ]
