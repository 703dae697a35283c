"""`manage.py quickstart`: run everything for a first look, server and worker in one process, until Ctrl-C."""

import json
import logging
import os
import signal
import socket
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import redirect_stderr
from hashlib import sha256
from pathlib import Path
from typing import Any

import uvicorn
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from chatmemory.llm import registry
from chatmemory.runtime.escape import plain
from conversations import quickstart
from conversations.quickstart import PRINTED_LINK, QUESTION, QuickstartData
from memory.worker.loop import TaskRunner

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
LAST_LINES = 5
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

SCREEN = """
chatmemory is running. {model}

{playground}  Admin         {site}/admin/
                as {admin}, {password}
  Sample chat   {site}/admin/conversations/chat/{chat}/change/
                the same chat as staff see it, with its memory
  API           {site}/v1/docs
  Log           {log}

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
        listening = _listen(port)
        ending = threading.Event()

        def end(*_: object) -> None:
            if ending.is_set():  # a further signal does not wait for the worker
                os._exit(0)
            ending.set()
            sys.exit(0)

        for number in SIGNALS:
            signal.signal(number, end)
        logging.getLogger().setLevel(logging.WARNING)  # until there is a log, this output is for people
        prepared = _prepared()
        os.environ[PRINTED_LINK] = sha256(prepared.demo_token.encode()).hexdigest()
        log = quickstart.folder() / "log" / "server.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        config = uvicorn.Config(
            "chatmemory.asgi:application",
            http="chatmemory.http_protocol:HttpProtocol",
            access_log=False,
            log_config=None,
        )
        server = uvicorn.Server(config)
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
        stopped = threading.Event()

        def end_without_worker(worker: Future[bool]) -> None:
            if not stopped.is_set():
                logger.error("the worker has ended", exc_info=worker.exception())
                server.should_exit = True

        with log.open("a", encoding="utf-8", buffering=1) as file, redirect_stderr(file):
            logging.getLogger().setLevel(settings.LOGGING["root"]["level"])
            with ThreadPoolExecutor(1, thread_name_prefix="worker") as thread:
                worker = thread.submit(TaskRunner().run, stopped)
                worker.add_done_callback(end_without_worker)
                try:
                    self._show(_screen(port, prepared, log))  # who calls now waits until it has started
                    server.run([listening])
                    problem = "The worker has ended." if worker.done() else "The server could not start."
                except SystemExit as ended:
                    # uvicorn passes on the signal that has ended it, or could not start.
                    problem = "The server could not start." if ended.code else ""
                finally:
                    stopped.set()
        if problem:
            raise CommandError(f"{problem} {_end_of(log)}")
        self._show("Ended.")
        if not worker.result():
            os._exit(0)  # a thread still waits for the summarizer, whose answer is not wanted any more

    def _show(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _listen(port: int) -> socket.socket:
    if not 0 < port < 65_536:
        raise CommandError(f"There is no port {port}: choose one from 1 to 65535.")
    try:
        return socket.create_server((HOST, port))
    except OSError as exc:
        reason = os.strerror(exc.errno or 0)
        raise CommandError(f"Port {port} cannot be used ({reason}). Choose another with --port.") from None


def _prepared() -> QuickstartData:
    try:
        call_command("migrate", interactive=False, verbosity=0)
        return quickstart.prepare()
    finally:
        connections.close_all()


def _end_of(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
    return "\n".join([f"Its log is {log}; it ends:", *map(plain, lines)])


def _screen(port: int, prepared: QuickstartData, log: Path) -> str:
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
        log=log,
        body=json.dumps({"chat_id": prepared.chat_id, "message": QUESTION}),
    )
