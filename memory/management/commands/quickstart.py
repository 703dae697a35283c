"""`manage.py quickstart`: run everything for a first look, server and worker in one process, until Ctrl-C.

It makes a staff user, a demo user with a token, and a sample chat with its memory; a second run finds what the first
one made. The database only has hashes of password and token, so the file `quickstart.json` next to it keeps them,
readable only by its owner.
"""

import json
import logging
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import redirect_stderr, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import uvicorn
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections
from knox.crypto import hash_token
from knox.models import AuthToken

from chatmemory.config.environment import make_folder
from chatmemory.llm import registry
from chatmemory.llm.offline import OfflineModel
from chatmemory.llm.protocol import Completion, Prompt, Usage, Variant
from chatmemory.runtime.escape import plain
from conversations.interchange.read import read_chats
from conversations.interchange.rows import import_chat
from conversations.models import Chat
from conversations.replies.begin import default_variant
from memory.folding.request import resummarize_now
from memory.worker.loop import TaskRunner

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
LAST_LINES = 5
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ADMIN = "admin"
DEMO = "demo"
SAMPLE = settings.BASE_DIR / "conversations" / "samples" / "trip.json"
QUESTION = "When and where is our concert?"
BY_HAND = "written by hand for the sample"
"""The model named in the revisions of the sample."""

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


@dataclass(frozen=True, slots=True)
class QuickstartData:
    """The demo's accounts and chat. An empty password: the staff user has another one, which stays."""

    admin_password: str
    demo_token: str
    chat_id: str


class Command(BaseCommand):
    help = "Everything for a first look: database, users, a sample chat, server and worker. Press Ctrl-C to stop."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="port of the server on 127.0.0.1 (default: 8000)")

    def handle(self, *_args: Any, **options: Any) -> None:
        port: int = options["port"]
        listening = _listen(port)
        make_folder("CHATMEMORY_HOME", folder())
        ending = threading.Event()

        def end(*_: object) -> None:
            if ending.is_set():  # a further signal does not wait for the worker
                os._exit(0)
            ending.set()
            sys.exit(0)

        for number in SIGNALS:
            signal.signal(number, end)
        logging.getLogger().setLevel(logging.WARNING)  # until there is a log, this output is for people
        try:
            self._show("Preparing the database.")
            call_command("migrate", interactive=False, verbosity=0)
            self._show("Preparing users and the sample chat.")
            prepared = prepare()
        finally:
            connections.close_all()
        settings.PRINTED_TOKEN_SHA256 = sha256(prepared.demo_token.encode()).hexdigest()
        log = folder() / "log" / "server.log"
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


def folder() -> Path:
    """Return the folder of quickstart's file and logs: next to the SQLite database, else `var/`."""
    if settings.IS_SQLITE:
        return Path(settings.DATABASES["default"]["NAME"]).absolute().parent
    return Path(settings.VAR_DIR)


def prepare() -> QuickstartData:
    """Create what is missing. The tables must exist. The sample is folded here only if that calls no upstream."""
    path = folder() / "quickstart.json"
    kept: dict[str, str] = {}
    with suppress(FileNotFoundError, ValueError, TypeError):
        kept = dict(json.loads(path.read_text(encoding="utf-8")))

    password = str(kept.get("admin_password", ""))
    if (admin := User.objects.filter(username=ADMIN).first()) is None:
        password = password or secrets.token_urlsafe(12)
        User.objects.create_superuser(ADMIN, password=password)
    elif not (password and admin.check_password(password)):
        password = ""

    demo, _ = User.objects.get_or_create(username=DEMO, defaults={"password": "!"})  # it has only the token
    token = str(kept.get("demo_token", ""))
    if not (token and AuthToken.objects.filter(user=demo, expiry=None, digest=hash_token(token)).exists()):
        token = str(AuthToken.objects.create(demo, expiry=None)[1])

    data = QuickstartData(password, token, _sample(demo))
    written = path.with_suffix(".new")  # replaces the file whole, so that a crash loses no password
    written.touch(mode=0o600)
    written.chmod(0o600)
    written.write_text(json.dumps({"admin_password": password, "demo_token": token}, indent=2))
    written.replace(path)
    return data


def _sample(demo: User) -> str:
    text = SAMPLE.read_text(encoding="utf-8")
    (sample,) = read_chats(text)
    chat = Chat.objects.filter(owner=demo, title=sample.title).order_by("pk").first()
    if chat is None:
        chat = import_chat(demo, sample)
        if registry.is_offline():
            texts = [message.content for message in sample.messages]
            summaries = {
                texts[one["through"] - 2]: "\n".join(f"- {point}" for point in one["points"])
                for one in json.loads(text)["summaries"]
            }
            with registry.wrap_models(lambda _: SampleSummarizer(summaries)):
                resummarize_now(chat, "update")
    return str(chat.pk)


class SampleSummarizer(OfflineModel):
    """The built-in model, except that it answers with the sample's own summaries.

    It cannot write prose. So the sample brings summaries written by hand in the style of a model, and each revision
    says so. They go through the same fold as any other answer.
    """

    def __init__(self, summaries: Mapping[str, str]) -> None:
        super().__init__()
        self._summaries = summaries
        """By the question of the last turn that each covers."""

    def complete(self, prompt: Prompt, variant: Variant, *, timeout: float) -> Completion:
        """Return the summary that covers the turns of the input; else the built-in model's."""
        last_turn = prompt.messages[-1].content.rpartition("\nUser: ")[2]
        written = self._summaries.get(last_turn.partition("\nAssistant: ")[0])
        if written is None or prompt.schema is not None:
            return super().complete(prompt, variant, timeout=timeout)
        return Completion(written, model=BY_HAND, usage=Usage(0, 0, 0))


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
        model=ONLINE if registry.upstream_of(default_variant()) else OFFLINE,
        playground=PLAYGROUND.format(**places) if settings.PLAYGROUND == "open" else "",
        admin=ADMIN,
        password=f"password {password}" if password else "with your own password",
        log=log,
        body=json.dumps({"chat_id": prepared.chat_id, "message": QUESTION}),
    )
