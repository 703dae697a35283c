"""The cost of finding the conversation: `POST /v1/chat/completions` beside `POST /v1/message`, in the same run.

Both begin the same turn in chats of as many messages; the first is sent the whole history, the second only the new
message. The server process's CPU time per request is compared. All conversations are distinct, so that each is found.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from knox.models import AuthToken

from benchmarks.chats import make_chat
from benchmarks.figures import Figure, Group
from benchmarks.serving import processes
from benchmarks.serving.client import Connection
from benchmarks.serving.processes import Running
from benchmarks.speech import exchanges
from chatmemory.llm.protocol import PromptMessage
from conversations.models import Chat, ChatCompletion, Message
from conversations.openai_api.history import history_keys

MESSAGES = 20
LONG = 2_000
CHATS = 200
LONG_CHATS = 20
ROUNDS = 8
BAR = 1.3
QUESTION = "And what was the last thing that we agreed on?"


def run(owner: User) -> Group:
    """Measure CPU per request on both paths, in chats of 20 messages; and on Chat Completions with 2,000."""
    token = AuthToken.objects.create(owner)[1]
    plain = [_chat(owner, MESSAGES, number) for number in range(CHATS)]
    short = [_chat(owner, MESSAGES, CHATS + number) for number in range(CHATS)]
    long = [_chat(owner, LONG, 2 * CHATS + number) for number in range(LONG_CHATS)]
    through = [("/v1/message", {"message": QUESTION, "chat_id": str(chat.pk)}) for chat in plain]
    found, found_long = ([_asked(owner, chat) for chat in chats] for chats in (short, long))
    with (
        tempfile.TemporaryDirectory() as folder,
        processes.fake_upstream("normal?deltas=20") as upstream,
        processes.server(upstream, Path(folder) / "log") as server,
    ):
        ours, theirs = asyncio.run(_alternate(server, token, through, found))
        longer = asyncio.run(_cpu(server, token, found_long))
    grown = (longer - theirs) / (LONG - MESSAGES) * 1000
    return Group(
        f"Chat Completions beside our own call, chats of {MESSAGES} messages",
        (
            Figure("CPU of the server a request, /v1/message", ours, "ms", note=f"{CHATS} requests"),
            Figure("  through /v1/chat/completions", theirs, "ms", note=f"{CHATS} requests"),
            Figure("  over that of /v1/message", theirs / ours, "×", bar=BAR, portable=True),
            Figure(
                "each further message that is sent",
                grown,
                "µs",
                note=f"histories of {LONG:,}; {LONG_CHATS} requests",
            ),
        ),
    )


def _chat(owner: User, messages: int, number: int) -> Chat:
    """Make a chat whose history differs from all others."""
    first, *others = exchanges()
    said = (replace(first, user=f"Conversation {number}: {first.user}"), *others)
    turns = messages // 2
    return make_chat(owner, turns, said=said[:turns] if turns <= len(said) else said)


def _asked(owner: User, chat: Chat) -> tuple[str, dict[str, Any]]:
    """Return the request that continues a chat by its whole history, and register the history as if sent before."""
    rows = list(Message.objects.filter(chat=chat).order_by("seq"))
    said = tuple(PromptMessage("user" if row.role == "user" else "assistant", row.content) for row in rows)
    secret = settings.SECRET_KEY.encode()
    keys = history_keys(secret, owner.pk, said[:-2], said[-2:-1])
    ChatCompletion.objects.create(
        message_id=rows[-1].pk,
        chat=chat,
        user=owner,
        seq=rows[-1].seq,
        asked=keys.asked,
        question=keys.question,
        request=b"",
        model="arco",
        decision="continued",
    )
    messages = [{"role": one.role, "content": one.content} for one in said]
    body = {"model": "arco", "messages": [*messages, {"role": "user", "content": QUESTION}], "stream": True}
    return "/v1/chat/completions", body


Requests = Sequence[tuple[str, dict[str, Any]]]


async def _alternate(server: Running, token: str, ours: Requests, theirs: Requests) -> tuple[float, float]:
    """Return the milliseconds of CPU per request of both, a round of each in turn; the first round of each warms up."""
    size = CHATS // ROUNDS
    spent = [0.0, 0.0]
    for start in range(0, CHATS, size):
        for index, requests in enumerate((ours, theirs)):
            cpu = await _cpu(server, token, requests[start : start + size])
            spent[index] += cpu if start else 0.0
    return spent[0] / (ROUNDS - 1), spent[1] / (ROUNDS - 1)


async def _cpu(server: Running, token: str, requests: Requests) -> float:
    """Return the milliseconds of CPU per request."""
    connection = await Connection(server.port, token).open()
    before = processes.cpu_seconds(server.pid)
    for path, body in requests:
        await connection.post(path, body)
    spent = processes.cpu_seconds(server.pid) - before
    await connection.close()
    return spent * 1000 / len(requests)
