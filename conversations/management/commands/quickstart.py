"""`manage.py quickstart`: run everything for a first look, until Ctrl-C.

This process is the server. The worker is its child, which is started again when it ends, and ends with it.
"""

from __future__ import annotations

import json
import logging.config
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import uvicorn
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError, connections

from chatmemory.llm import registry
from chatmemory.runtime.escape import plain
from chatmemory.runtime.logs import logging_config
from conversations import quickstart
from conversations.quickstart import PRINTED_LINK, QUESTION, QuickstartData

HOST = "127.0.0.1"
READY_SECONDS = 60
LAST_LINES = 5

SCREEN = """
chatmemory is running. {model}

{playground}  Admin         {site}/admin/
                as {admin}, {password}
  Sample chat   {site}/admin/conversations/chat/{chat}/change/
                the same chat as staff see it, with its memory
  API           {site}/v1/docs
  Logs          {logs}

Ask the sample chat something, and see the reply stream:

curl -N {site}/v1/message \\
  -H 'Authorization: Bearer {token}' \\
  -H 'Content-Type: application/json' \\
  -d '{body}'

Press Ctrl-C to stop."""

PLAYGROUND = """  Playground    {site}/playground/#token={token}&chat={chat}
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
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: sys.exit(0))
        logging.getLogger().setLevel(logging.WARNING)  # until there is a log, this output is for people
        prepared = _prepared()
        os.environ[PRINTED_LINK] = sha256(prepared.demo_token.encode()).hexdigest()
        folder = quickstart.folder() / "log"
        folder.mkdir(parents=True, exist_ok=True)
        logs = [folder / "server.log", folder / "worker.log"]
        config = uvicorn.Config(
            "chatmemory.asgi:application",
            http="chatmemory.http_protocol:HttpProtocol",
            host=HOST,
            port=port,
            access_log=False,
            log_config=None,
        )
        server = uvicorn.Server(config)
        signal.signal(signal.SIGHUP, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        with logs[0].open("a", encoding="utf-8", buffering=1) as file, redirect_stderr(file):
            level = settings.LOGGING["root"]["level"]
            logging.config.dictConfig(logging_config(os.environ["LOG_FORMAT"], level))
            with worker(logs[1]):
                screen = _screen(port, prepared, logs)
                threading.Thread(target=self._show, args=(screen, port, server), daemon=True).start()
                try:
                    server.run()
                    problem = f"Server and worker were not ready within {READY_SECONDS} s. {_end_of(logs[0])}"
                except (
                    SystemExit
                ) as ended:  # uvicorn passes on the signal that has ended it, or could not start
                    problem = f"The server could not start. {_end_of(logs[0])}" if ended.code else ""
        if problem:
            raise CommandError(problem)
        self.stdout.write("Ended.")

    def _show(self, screen: str, port: int, server: uvicorn.Server) -> None:
        """Print `screen` when server and worker are ready. End the server if they are not in time."""
        until = time.monotonic() + READY_SECONDS
        while not _is_ready(port):
            if server.should_exit or time.monotonic() > until:
                server.should_exit = True
                return
            time.sleep(READY_SECONDS / 600)
        self.stdout.write(screen)
        self.stdout.flush()


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


@contextmanager
def worker(log: Path) -> Iterator[None]:
    """Run the worker as a child process, started again a second after it ended, as a service manager does."""
    command = [sys.executable, "-m", "chatmemory", "worker", "--parent", str(os.getpid())]
    over = threading.Event()
    children: list[subprocess.Popen[bytes]] = []

    def supervise() -> None:
        with log.open("ab") as file:
            while not over.is_set():
                child = subprocess.Popen(  # noqa: S603  # our own command, no shell
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    cwd=settings.BASE_DIR,
                    start_new_session=True,  # a terminal's Ctrl-C is for the parent, which tells the worker to stop
                )
                children[:] = [child]
                child.wait()
                over.wait(1)

    supervisor = threading.Thread(target=supervise, name="supervisor", daemon=True)
    supervisor.start()
    try:
        yield
    finally:
        over.set()
        for child in children:
            child.terminate()
        supervisor.join(settings.WORKER_STOP_SECONDS + 4)
        for child in children:
            child.kill()


def _prepared() -> QuickstartData:
    try:
        call_command("migrate", interactive=False, verbosity=0)
        return quickstart.prepare()
    except OperationalError as exc:
        raise CommandError(f"The database named by DATABASE_URL does not work: {exc}") from exc
    finally:
        connections.close_all()


def _is_ready(port: int) -> bool:
    try:
        return build_opener(ProxyHandler({})).open(f"http://{HOST}:{port}/readyz", timeout=5).status == 200  # type: ignore[no-any-return]  # typeshed: Any
    except OSError:
        return False


def _end_of(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
    return "\n".join([f"Its log is {_short(log)}; it ends:", *map(plain, lines)])


def _screen(port: int, prepared: QuickstartData, logs: list[Path]) -> str:
    password = prepared.admin_password
    places = {
        "site": f"http://{HOST}:{port}",
        "token": prepared.demo_token,
        "chat": prepared.chat_id,
    }
    return SCREEN.format(
        **places,
        model=OFFLINE if registry.is_offline() else ONLINE,
        playground=PLAYGROUND.format(**places) if settings.PLAYGROUND == "open" else "",
        admin=quickstart.ADMIN,
        password=f"password {password}" if password else "with your own password",
        logs=", ".join(map(_short, logs)),
        body=json.dumps({"chat_id": prepared.chat_id, "message": QUESTION}),
    )


def _short(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
