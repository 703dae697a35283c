"""The way of a request through our own code: how many of our files run on it, counted by a profile hook.

*Ground* files are not opened to understand a message: server, HTTP, database, runtime, text. All others are
*rooms*. Each trip is made twice, on this process's own server with the built-in model; the second is counted.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User

from benchmarks.figures import Figure, Group

ROOT = Path(__file__).resolve().parent.parent
OURS = tuple(f"{ROOT / app}/" for app in ("chatmemory", "conversations", "memory"))
GROUND = tuple(f"{ROOT / 'chatmemory' / name}" for name in ("api/", "database/", "runtime/", "text/"))
SERVER = ROOT / "chatmemory"
TURNS = 40
SAID = "We arrive on day {0} and sleep at the house {0}."
SETTLE_SECONDS = 0.5
"""Time for what the server does after it has answered."""

Trip = Callable[[], object]


PARTS = {"finish": "the reply is finished", "prompt_for": "the prompt is made of the brief"}
"""Functions of a trip, whose own way is counted, too."""


class _Recorder:
    """The files and functions that run while it records, in all threads that start after it."""

    def __init__(self) -> None:
        self.is_on = False
        self.functions: set[tuple[str, int]] = set()
        self.parts: dict[str, set[tuple[str, int]]] = {}
        self._thread = threading.local()
        threading.setprofile(self._hook)
        sys.setprofile(self._hook)

    def _hook(self, frame: Any, event: str, _argument: object) -> None:
        code = frame.f_code
        if not (
            self.is_on
            and event in ("call", "return")
            and code.co_filename.startswith(OURS)
            and code.co_name != "<module>"
        ):
            return
        within = self._thread.__dict__.setdefault("within", [])
        is_part = code.co_qualname in PARTS
        if event == "return":
            if is_part and within:
                within.pop()
            return
        within += [code.co_name] if is_part else []
        function = code.co_filename, code.co_firstlineno
        self.functions.add(function)
        for part in within:
            self.parts.setdefault(part, set()).add(function)

    @contextmanager
    def recording(self) -> Iterator[None]:
        self.functions, self.parts = set(), {}
        self.is_on = True
        try:
            yield
            time.sleep(SETTLE_SECONDS)
        finally:
            self.is_on = False


def run(owner: User) -> Group:
    """Make each trip, and count its files, rooms and functions."""
    recorder = _Recorder()
    figures = []
    for name, makes in _trips(owner).items():
        makes()()
        trip = makes()
        with recorder.recording():
            trip()
        figures.append(_figure(name, recorder.functions))
        figures += [_figure(f"– {PARTS[part]}", functions) for part, functions in sorted(recorder.parts.items())]
    return Group("The way of a request", tuple(figures))


def _figure(name: str, functions: set[tuple[str, int]]) -> Figure:
    files = {file for file, _ in functions}
    ground = sum(file.startswith(GROUND) or Path(file).parent == SERVER for file in files)
    note = f"{ground} ground, {len(files) - ground} rooms, {len(functions)} functions"
    return Figure(name, len(files), "files", note=note)


def _trips(owner: User) -> dict[str, Callable[[], Trip]]:
    """For each trip, a function that prepares a chat and returns what is to be counted."""
    from knox.models import AuthToken

    from conversations.models import Chat, Message
    from memory.tasks import fold_task
    from tests.support.factories import add_turns, make_chat
    from tests.support.live_server import Client, LiveServer

    server = LiveServer().__enter__()  # the process ends with it
    client = Client(server.url, AuthToken.objects.create(owner)[1])

    def chat_of(turns: int) -> Chat:
        chat = make_chat(owner)
        add_turns(chat, [(SAID.format(number), f"Noted, day {number}. " * 20) for number in range(turns)])
        return chat

    def asks(turns: int, message: str, *, stream: bool) -> Trip:
        body = {"chat_id": str(chat_of(turns).pk), "message": message, "stream": stream}
        return lambda: client.post("message", json=body).raise_for_status().read()

    def folds() -> Trip:
        chat = chat_of(8 * TURNS)
        return lambda: fold_task(str(chat.pk))

    def completes() -> Trip:
        said = [{"role": role, "content": text} for role, text in (("user", "Hi"), ("assistant", "Hello"))]
        asked = {"role": "user", "content": f"It is {time.monotonic_ns()}. What of it?"}
        body = {"model": "arco", "messages": [*said, asked], "stream": True}
        return lambda: client.post("chat/completions", json=body).raise_for_status().read()

    def edits() -> Trip:
        chat = chat_of(8 * TURNS)
        fold_task(str(chat.pk))
        message = Message.objects.get(chat=chat, seq=1)
        path = f"chats/{chat.pk}/messages/{message.pk}"
        return lambda: client.patch(path, json={"content": "Of another day."}).raise_for_status()

    return {
        "message, short chat, JSON": lambda: asks(2, "Thank you.", stream=False),
        "message, 40 turns, no recall, stream": lambda: asks(TURNS, "Thank you.", stream=True),
        "message, recall searches, stream": lambda: asks(8 * TURNS, "Where is the house of day 3?", stream=True),
        "fold": folds,
        "chat completion, stream": completes,
        "edit of a message that is summarized": edits,
    }
