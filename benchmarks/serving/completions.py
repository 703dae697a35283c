"""The cost of OpenAI's API: `POST /v1/chat/completions` beside `POST /v1/message`, and `POST /v1/responses` beside it.

The first two begin the same turn in chats of as many messages; the first is sent the whole history, the second only the
new message. The server process's CPU time per request is compared. All conversations are distinct, so that each is
found. Streams of responses and completions are compared where both name the chat that they continue: their deltas come
one by one, so that each is an event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from knox.models import AuthToken

from benchmarks.chats import make_chat
from benchmarks.figures import Figure, Group
from benchmarks.serving import processes
from benchmarks.serving.client import Connection
from benchmarks.serving.processes import Running
from benchmarks.serving.streams import DELTAS, serving
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
RESPONSES_BAR = 1.15
STREAM_SECONDS = 2
QUESTION = "And what was the last thing that we agreed on?"


def run(owner: User) -> Group:
    """Measure CPU per request on all paths, in chats of 20 messages; and on Chat Completions with 2,000."""
    token = AuthToken.objects.create(owner)[1]
    plain = [_chat(owner, MESSAGES, number) for number in range(CHATS)]
    short = [_chat(owner, MESSAGES, CHATS + number) for number in range(CHATS)]
    long = [_chat(owner, LONG, 2 * CHATS + number) for number in range(LONG_CHATS)]
    through = [("/v1/message", {"message": QUESTION, "chat_id": str(chat.pk)}) for chat in plain]
    found, found_long = ([_asked(owner, chat) for chat in chats] for chats in (short, long))
    with serving("normal?deltas=20") as (server, _):
        ours, theirs = asyncio.run(_alternate(server, token, through, found))
        longer = asyncio.run(_cpu(server, token, found_long))
    named: list[Requests] = [
        [(path, {**body, "conversation": str(chat.pk), "model": "arco", "stream": True}) for chat in chats]
        for path, body, chats in (
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": QUESTION}]}, [*plain[::2], *short[::2]]),
            ("/v1/responses", {"input": QUESTION}, [*plain[1::2], *short[1::2]]),
        )
    ]
    with serving(f"normal?deltas={DELTAS}&rate={DELTAS / STREAM_SECONDS}") as (server, _):
        completions, responses = asyncio.run(_alternate(server, token, *named, at_once=CHATS // ROUNDS))
    grown = (longer - theirs) / (LONG - MESSAGES) * 1000
    return Group(
        f"Chat Completions and Responses, chats of {MESSAGES} messages",
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
            Figure(f"a stream of {DELTAS} deltas, /v1/chat/completions", completions, "ms", note=f"{CHATS} streams"),
            Figure("  through /v1/responses", responses, "ms", note=f"{CHATS} streams"),
            Figure("  over that of /v1/chat/completions", responses / completions, "×", RESPONSES_BAR, portable=True),
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


async def _alternate(
    server: Running, token: str, ours: Requests, theirs: Requests, *, at_once: int = 1
) -> tuple[float, float]:
    """Return the milliseconds of CPU per request of both, a round of each in turn; the first round of each warms up."""
    size = CHATS // ROUNDS
    spent = [0.0, 0.0]
    for start in range(0, CHATS, size):
        for index, requests in enumerate((ours, theirs)):
            cpu = await _cpu(server, token, requests[start : start + size], at_once=at_once)
            spent[index] += cpu if start else 0.0
    return spent[0] / (ROUNDS - 1), spent[1] / (ROUNDS - 1)


async def _cpu(server: Running, token: str, requests: Requests, *, at_once: int = 1) -> float:
    """Return the milliseconds of CPU per request."""
    connections = [await Connection(server.port, token).open() for _ in range(at_once)]
    before, left = processes.cpu_seconds(server.pid), iter(requests)

    async def ask(connection: Connection) -> None:
        for path, body in left:
            await connection.post(path, body)

    await asyncio.gather(*map(ask, connections))
    spent = processes.cpu_seconds(server.pid) - before
    for connection in connections:
        await connection.close()
    return spent * 1000 / len(requests)
