"""`manage.py quickstart`: run everything for a first look, until Ctrl-C.

The modules that server and worker need are loaded once and shared: both are forks of this process, which itself uses
neither the database nor threads. On systems other than Linux they are started as commands.
"""

from __future__ import annotations

import http.client
import importlib
import json
import logging.config
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import uvicorn
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError

from chatmemory.llm import registry
from chatmemory.runtime import forks, garbage, processes
from chatmemory.runtime.escape import plain
from chatmemory.runtime.logging_config import logging_config
from chatmemory.runtime.processes import Running
from chatmemory.text import tokens
from conversations import quickstart
from conversations.quickstart import PRINTED_LINK, QuickstartData
from conversations.sample import QUESTION

HOST = "127.0.0.1"
READY_SECONDS = 60
WATCH_SECONDS = 0.2
LAST_LINES = 5

SCREEN = """
chatmemory is running. {model}

{playground}  Admin         http://{host}:{port}/admin/
                {login}
  Sample chat   http://{host}:{port}/admin/conversations/chat/{chat_id}/change/
                the same chat as staff see it, with its memory
  API           http://{host}:{port}/v1/docs
  Logs          {logs}

Ask the sample chat something, and see the reply stream:

curl -N http://{host}:{port}/v1/message \\
  -H 'Authorization: Bearer {token}' \\
  -H 'Content-Type: application/json' \\
  -d '{body}'

Press Ctrl-C to stop."""

PLAYGROUND = """  Playground    http://{host}:{port}/playground/#token={token}&chat={chat_id}
                open this first: a long chat of the user demo, with its memory next to it

"""

OFFLINE = "The built-in offline model answers; set OPENAI_API_KEY or OPENAI_BASE_URL for a real one."
ONLINE = "The configured model answers, and summarizes the sample chat in the background."


class Command(BaseCommand):
    help = "Everything for a first look: database, users, a sample chat, server and worker. Press Ctrl-C to stop."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--port", type=int, default=8000, help="port of the server on 127.0.0.1 (default: 8000)"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        port: int = options["port"]
        require_free(port)
        stopped = _on_signals()
        logging.getLogger().setLevel(logging.WARNING)  # this output is for people; the children keep logs
        if forks.are_safe():
            _load()
        prepared = _prepared_apart() if forks.are_safe() else _prepared()
        os.environ[PRINTED_LINK] = sha256(prepared.demo_token.encode()).hexdigest()
        running: list[Running] = []
        try:
            running += [_server(port), _worker()]
            if not _until_ready(port, running, stopped):
                return
            self.stdout.write(_screen(port, prepared, running))
            self.stdout.flush()
            _watch(running, stopped)
        finally:
            processes.end(running)
        self.stdout.write("Ended.")


def require_free(port: int) -> None:
    """Raise `CommandError` unless a server can listen on `port`."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OverflowError:
            raise CommandError(f"There is no port {port}: choose one from 1 to 65535.") from None
        except OSError as exc:
            reason = exc.strerror or exc
            raise CommandError(
                f"Port {port} cannot be used ({reason}). Choose another with --port."
            ) from None


def _on_signals() -> threading.Event:
    """Return an event that Ctrl-C, SIGTERM or a closed terminal sets from now on."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stopped.set())
    return stopped


def _load() -> None:
    """Load what server and worker need, and exempt it from garbage collection, which would write to shared pages."""
    for name in ("chatmemory.asgi", "chatmemory.http_protocol", "chatmemory.urls", "memory.tasks"):
        importlib.import_module(name)
    tokens.load()
    registry.load()
    garbage.freeze_existing()


def _prepared_apart() -> QuickstartData:
    """Run `_prepared` in a separate process, because it uses the database and threads."""
    here, there = multiprocessing.Pipe(duplex=False)

    def prepare() -> None:
        try:
            there.send(_prepared())
        except CommandError as error:
            there.send(error)

    child = forks.start("preparation", prepare, log=None, patience=0)
    there.close()
    try:
        found: QuickstartData | CommandError = here.recv()
    except EOFError:
        raise CommandError("The database could not be prepared.") from None
    finally:
        child.kill_all()
    if isinstance(found, CommandError):
        raise found
    return found


def _prepared() -> QuickstartData:
    try:
        call_command("migrate", interactive=False, verbosity=0)
        return quickstart.prepare()
    except OperationalError as exc:
        raise CommandError(f"The database named by DATABASE_URL does not work: {exc}") from exc


def _server(port: int) -> Running:
    command = [
        "uvicorn",
        "chatmemory.asgi:application",
        "--http",
        "chatmemory.http_protocol:HttpProtocol",
        "--host",
        HOST,
        "--port",
        str(port),
        "--no-access-log",
    ]
    patience = settings.REPLY_DRAIN_SECONDS + 4  # time for replies being written to end
    return _start("server", [sys.executable, "-m", *command], partial(_serve, port), patience)


def _serve(port: int) -> None:
    """Run the server in the fork, as the command does."""
    if problem := registry.embeddings_problem():
        sys.exit(problem)
    uvicorn.run(
        "chatmemory.asgi:application",
        http="chatmemory.http_protocol:HttpProtocol",
        host=HOST,
        port=port,
        access_log=False,
        log_config=None,
    )


def _worker() -> Running:
    command = [sys.executable, "-m", "chatmemory", "worker"]
    return _start("worker", command, partial(call_command, "worker"), settings.WORKER_STOP_SECONDS + 4)


def _start(name: str, command: list[str], work: Callable[[], object], patience: float) -> Running:
    log = quickstart.folder() / "log" / f"{name}.log"

    def logged() -> None:
        logging.config.dictConfig(logging_config(os.environ["LOG_FORMAT"], settings.LOGGING["root"]["level"]))
        work()

    if forks.are_safe():
        return forks.start(name, logged, log=log, patience=patience, title=name)
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return processes.start(
        name, command, log=log, cwd=settings.BASE_DIR, env=env, patience=patience, is_tied=True
    )


def _until_ready(port: int, running: list[Running], stopped: threading.Event) -> bool:
    """Return True once server and worker are ready, or False if stopped before."""
    deadline = time.monotonic() + READY_SECONDS
    while not stopped.wait(WATCH_SECONDS / 2):
        _require_alive(running)
        if _is_ready(port):
            return True
        if time.monotonic() > deadline:
            raise CommandError(
                f"Server and worker were not ready within {READY_SECONDS} s.{_last_lines(running[0])}"
            )
    return False


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=5)  # unlike urllib, it uses no proxies
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _watch(running: list[Running], stopped: threading.Event) -> None:
    while not stopped.wait(WATCH_SECONDS):
        _require_alive(running)


def _require_alive(running: list[Running]) -> None:
    for child in running:
        if child.exit_code is not None:
            raise CommandError(
                f"The {child.name} ended by itself, with code {child.exit_code}.{_last_lines(child)}"
            )


def _last_lines(child: Running) -> str:
    text = child.log.read_text(encoding="utf-8", errors="replace")
    lines = list(map(plain, text.splitlines()[-LAST_LINES:]))
    return "\n".join([f" Its log is {_short(child.log)}; it ends:", *lines])


def _screen(port: int, prepared: QuickstartData, running: list[Running]) -> str:
    password = prepared.admin_password
    login = (
        f"as {quickstart.ADMIN}, password {password}"
        if password
        else f"as {quickstart.ADMIN}, with your own password"
    )
    where = {"host": HOST, "port": port, "token": prepared.demo_token, "chat_id": prepared.chat_id}
    return SCREEN.format(
        **where,
        model=OFFLINE if registry.is_offline() else ONLINE,
        playground=PLAYGROUND.format(**where) if settings.PLAYGROUND == "open" else "",
        login=login,
        logs=", ".join(_short(child.log) for child in running),
        body=json.dumps({"chat_id": prepared.chat_id, "message": QUESTION}),
    )


def _short(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
