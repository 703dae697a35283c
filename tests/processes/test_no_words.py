"""Errors everywhere, each with message text in it; the processes must not write any of that text.

The database quotes the row that it refuses, as PostgreSQL does by itself. `test_logs` covers what the healthy product
writes.
"""

from __future__ import annotations

import json
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
from django_q.models import Task
from django_q.tasks import async_task

from conversations.models import ActiveReply
from memory.models import ConversationBrief
from memory.queue import FOLD_TASK
from tests.processes.talking import LOW, settled
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client
from tests.support.process_tree import descendants_of
from tests.support.processes import KEY, ROOT, Product
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

CANARY = "canary-7f3a"
PASSWORD = "canary-password-91c2"
QUICK = {
    "MEMORY_FOLD_BACKOFF_SECONDS": "0.1",
    "REPLY_CHECKPOINT_SECONDS": "0.1",
    "REPLY_LEASE_SECONDS": "1",
}
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
            cursor.execute(
                f"CREATE TRIGGER {name} BEFORE {act} ON {table} FOR EACH ROW EXECUTE FUNCTION {name}()"
            )
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(
                f"DROP TRIGGER {name}" if connection.vendor == "sqlite" else f"DROP FUNCTION {name} CASCADE"
            )


@pytest.mark.processes
@pytest.mark.promise("P27")
@pytest.mark.parametrize("style", ["json", pytest.param("console", marks=pytest.mark.slow)])
def test_errors_contain_no_message_text(product: Product, fake: FakeUpstream, style: str) -> None:
    product.env |= LOW | QUICK | {"LOG_FORMAT": style}
    product.server()
    product.worker()
    client = product.client()
    chat_id = _talk(client)
    wait_for(lambda: settled(chat_id), "a fold")
    for table, act in TABLES.items():
        with refusing(table, act):
            _upset(client, chat_id)
            if table == "memory_summaryrevision":
                wait_for(lambda: _is_told(product), "a fold that cannot be stored")
        wait_for(lambda: not ActiveReply.objects.exists(), "the end of every reply")
    _failing_task(chat_id)
    _refusals(client)
    fake.script("complete", "status?code=400")
    _talk(client)
    wait_for(lambda: "memory fold failed" in product.log_text(), "a fold that fails")
    _command_lines(product, client)
    product.stop()

    text = product.log_text()
    refused = (
        "sqlite_errorname=SQLITE_CONSTRAINT_TRIGGER" if connection.vendor == "sqlite" else "sqlstate=P0001"
    )
    assert refused in text, "the database's errors were not told at all"
    results = "".join(str(task.result) for task in Task.objects.filter(success=False))
    assert "TaskFailed" in results
    for secret in (CANARY, PASSWORD, KEY, "sk-leak", client.token):
        assert secret not in text
        assert secret not in results
    product.expected |= {line["event"] for line in product.errors()}


def _talk(client: Client) -> UUID:
    """Make a chat with something to fold."""
    chat_id = client.ask(f"{CANARY} " + "and so on " * 200)["chat_id"]
    for _ in range(6):
        client.ask(f"{CANARY} " + "and so on " * 200, chat_id)
    return UUID(chat_id)


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


def _refusals(client: Client) -> None:
    """Send input that the server refuses and must not repeat."""
    token = client.http.headers["Authorization"].split()[1]
    client.post("auth/token", json={"username": CANARY, "password": PASSWORD})
    client.post("message", content=f'{{"message": "{CANARY}', headers={"Content-Type": "application/json"})
    client.post("message/first", json={"message": CANARY, CANARY: CANARY})
    client.get("chats", params={"cursor": CANARY, "search": CANARY})
    client.get("models", headers={"Host": f"{CANARY}.example"})
    client.get("models", headers={"Authorization": f"Bearer {token[:8]}{PASSWORD}"})


def _command_lines(product: Product, client: Client) -> None:
    """A list of the machine's processes reveals no secret."""
    if not Path("/proc/self/cmdline").exists():
        return
    pids = [
        pid for child in product.children for pid in (child.process.pid, *descendants_of(child.process.pid))
    ]
    lines = [Path(f"/proc/{pid}/cmdline").read_text() for pid in pids if Path(f"/proc/{pid}").exists()]
    assert len(lines) >= 2
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
