"""How commands and servers report a wrong or unmigrated database: one sentence that names the reason."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from django.conf import settings

from tests.support.processes import ROOT, Product, here, scratch

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PASSWORD = "geheim-7261"
COMMANDS = {
    "migrate": ["manage.py", "migrate"],
    "sweep": ["manage.py", "sweep"],
    "create_token": ["manage.py", "create_token", "alice"],
    "worker": ["manage.py", "worker"],
    "createsuperuser": "manage.py createsuperuser --noinput --username a --email a@b.example".split(),
    "server": ["manage.py", "serve", "--port", "0"],
}


def run(command: list[str], url: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    outside = {**os.environ, "DATABASE_URL": url, "DJANGO_SECRET_KEY": "x" * 50, **env}
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=outside, capture_output=True, text=True, timeout=120
    )


@contextmanager
def silent_port() -> Iterator[int]:
    """Yield a port whose connections are never accepted: its queue is full, so that new ones are dropped."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, ExitStack() as waiting:
        port: int = server.getsockname()[1]
        for _ in range(4):
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        yield port


WRONG = {
    "name": ("{user}", "{host}", "no_such_database", 'database "no_such_database" does not exist'),
    "user": ("no_such_user", "{host}", "postgres", "no_such_user"),
    "port": ("{user}", "127.0.0.1:9", "postgres", "port 9 failed: Connection refused"),
    "host": ("{user}", "no-such-host.invalid", "postgres", "no-such-host.invalid"),
    "silent host": ("{user}", "127.0.0.1:{silent}", "postgres", "timeout expired"),
}
"""User, host and name in the URL of a database, one of them wrong, and what the sentence says of it."""


@pytest.mark.skipif(settings.IS_SQLITE, reason="a file has no host")
@pytest.mark.parametrize(
    ("what", "command"), [*((what, "migrate") for what in WRONG), *(("port", name) for name in COMMANDS)]
)
def test_a_wrong_database_url_is_one_sentence(what: str, command: str) -> None:
    at = urlsplit(here())
    *parts, reason = WRONG[what]
    with silent_port() as silent:
        known = {
            "user": at.username or "postgres",
            "host": f"{at.hostname}:{at.port or 5432}",
            "silent": silent,
        }
        user, host, name = (part.format(**known) for part in parts)
        done = run(COMMANDS[command], f"postgres://{user}:{PASSWORD}@{host}/{name}")
    error = done.stderr.strip()
    assert done.returncode != 0
    assert error.startswith("The database that DATABASE_URL names cannot be used: "), error
    assert reason in error
    assert len(error.splitlines()) == 1
    assert PASSWORD not in done.stdout + done.stderr


@pytest.mark.skipif(settings.IS_SQLITE, reason="a file is in UTF-8")
@pytest.mark.parametrize("command", ["worker", "server"])
def test_a_database_in_another_encoding_is_one_sentence(empty: str, command: str) -> None:
    name = urlsplit(empty).path[1:]
    with psycopg.connect(urlsplit(empty)._replace(path="/postgres").geturl(), autocommit=True) as admin:
        admin.execute(f'DROP DATABASE "{name}"')
        admin.execute(f"CREATE DATABASE \"{name}\" ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    done = run(COMMANDS[command], empty)
    assert done.returncode != 0
    assert done.stderr.strip() == (
        "The database that DATABASE_URL names cannot be used: its encoding is LATIN1, not UTF8."
    )


@pytest.mark.skipif(settings.IS_SQLITE, reason="a file has no standby")
def test_a_database_that_takes_no_writes_is_503(empty: str, tmp_path: Path) -> None:
    with Product(tmp_path, empty) as product:
        product.manage("migrate")
        token = product.manage("create_token", "alice", "--create").strip()
        product.env["PGOPTIONS"] = "-c default_transaction_read_only=on"
        product.expected |= {"database unavailable", "Service Unavailable: /v1/chats"}
        product.server()
        answer = httpx.post(f"{product.url}/v1/chats", json={}, headers={"Authorization": f"Bearer {token}"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable"), answer.text
        assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize("command", ["check", "makemigrations", "help"])
def test_commands_without_database_need_none(command: str) -> None:
    options = ["--check", "--dry-run"] if command == "makemigrations" else []
    done = run(["manage.py", command, *options], "postgres://nobody@127.0.0.1:9/nothing")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[str]:
    """A database without tables."""
    with scratch(tmp_path, "" if settings.IS_SQLITE else settings.DATABASE_URL) as url:
        yield url


SENTENCE = "migrations are missing): run `manage.py migrate`."


@pytest.mark.parametrize("command", ["sweep", "create_token", "createsuperuser", "worker"])
def test_an_unmigrated_database_is_one_sentence(empty: str, command: str) -> None:
    done = run(COMMANDS[command], empty, DJANGO_SUPERUSER_PASSWORD="x" * 20)
    assert done.returncode != 0
    said = done.stderr.strip().removeprefix("CommandError: ")
    assert len(said.splitlines()) == 1, said
    assert said.startswith("The database is not migrated ("), said
    assert said.endswith(SENTENCE)


def test_a_server_on_an_unmigrated_database(empty: str, tmp_path: Path) -> None:
    """It starts, logs the reason, and answers 503 until the tables are migrated: then all is well without a restart."""
    with Product(tmp_path, empty) as product:
        product.expected |= {"database not migrated", *(f"Service Unavailable: {path}" for path in PATHS)}
        product.server()
        ready = httpx.get(f"{product.url}/readyz")
        assert ready.status_code == 503
        assert list(ready.json()["error"]["details"]) == ["migrations"]
        assert ready.json()["error"]["message"] == "Not ready: migrations."
        for path in PATHS:
            answer = httpx.get(f"{product.url}{path}", headers=KNOWN)
            assert answer.status_code == 503, path
            assert answer.json()["error"]["code"] == "unavailable"
            assert int(answer.headers["retry-after"]) >= 1
        assert "Traceback" not in product.log_text()
        assert product.errors() == []
        at_start = product.logged("database not migrated")[0]
        assert at_start["reason"].endswith(SENTENCE)
        product.manage("migrate")
        details = httpx.get(f"{product.url}/readyz").json()["error"]["details"]
        assert set(details) == {"worker"}


PATHS = ("/v1/chats", "/v1/me/export", "/admin/login/", "/admin/")
KNOWN = {"Authorization": f"Bearer {'a' * 64}", "Cookie": f"sessionid={'a' * 32}"}


def test_command_ended_by_ctrl_c_says_so_in_a_word() -> None:
    code = "import time; print('runs', flush=True); time.sleep(60)"
    command = [sys.executable, "manage.py", "shell", "-v", "0", "-c", code]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "runs\n"
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
    assert (process.returncode, error) == (130, "Stopped.\n")


def test_a_process_starts_without_output_and_without_certificates() -> None:
    command = f"{sys.executable} manage.py shell -v 0 -c 'import chatmemory.llm.openai.client' >&-"
    missing = {**os.environ, "SSL_CERT_FILE": "/missing"}
    assert subprocess.run(["sh", "-c", command], cwd=ROOT, env=missing).returncode == 0
