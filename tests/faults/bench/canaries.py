"""Canaries: an unguessable word in everything said in a chat, which no other user may ever be shown.

`Canaries` looks for them in the answers to users (`Watching` shows it every byte), in requests to the upstream, and
in the database. One in the wrong place is a problem.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Iterator
from typing import Any

import httpx

from conversations.models import Chat, Message
from memory.models import ConversationBrief, SummaryRevision
from tests.support.fakes.connection import Request

CANARY = re.compile(rb"CN-\d{18}")
PATTERN = r"[A-Z]{2}-\d{4,}"
"""Makes the fake's summarizer keep canaries, besides the codes of the turns."""
LENGTH = 21


class Canaries:
    """All canaries and their owners. Its methods are thread-safe."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.prompts = 0
        self.summaries = 0
        """Number of prompts searched, of replies and of summaries."""
        self.bytes = 0
        """Bytes of answers searched."""
        self._owners: dict[bytes, str] = {}

    def new(self, user: str) -> str:
        """Return a canary for a chat of that user."""
        canary = f"CN-{secrets.randbelow(10**18):018}"
        self._owners[canary.encode()] = user
        return canary

    def answered(self, user: str, data: bytes) -> None:
        """Check an answer to this user."""
        for canary in set(CANARY.findall(data)):
            if self._owners.get(canary) != user:
                self.problems.append(f"{user} was sent a canary of {self._owners.get(canary)}")

    def asked(self, request: Request) -> None:
        """Check a request to the upstream, which belongs to one chat."""
        found = set(CANARY.findall(request.raw))
        if len(found) != 1 or not found <= self._owners.keys():
            self.problems.append(f"a prompt ({request.lane}) holds {len(found)} canaries")
        if request.lane == "stream":
            self.prompts += 1
        else:
            self.summaries += 1

    def stored(self, chats: Iterable[tuple[str, str, list[str]]]) -> None:
        """Check everything stored for these chats (owner, id, canaries found in their rows)."""
        seen: dict[str, str] = {}
        for user, chat, canaries in chats:
            if len(canaries) != 1 or self._owners.get(canaries[0].encode()) != user:
                self.problems.append(f"chat {chat} of {user} holds {len(canaries)} canaries")
            for canary in canaries:
                if seen.setdefault(canary, chat) != chat:
                    self.problems.append(f"chats {chat} and {seen[canary]} hold the same canary")


class Watching(httpx.BaseTransport):
    """An HTTP transport for one user that checks every answer for foreign canaries."""

    def __init__(self, user: str, canaries: Canaries) -> None:
        self._inner = httpx.HTTPTransport()
        self._user, self._canaries = user, canaries

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._inner.handle_request(request)
        assert isinstance(answer.stream, httpx.SyncByteStream)
        self._canaries.answered(self._user, str(answer.headers).encode())
        watched = Watched(answer.stream, self._user, self._canaries)
        return httpx.Response(
            answer.status_code, headers=answer.headers, stream=watched, extensions=answer.extensions
        )

    def close(self) -> None:
        self._inner.close()


class Watched(httpx.SyncByteStream):
    """The bytes of an answer as they arrive, wherever they are split."""

    def __init__(self, stream: httpx.SyncByteStream, user: str, canaries: Canaries) -> None:
        self._stream, self._user, self._canaries = stream, user, canaries

    def __iter__(self) -> Iterator[bytes]:
        tail = b""
        for part in self._stream:
            self._canaries.answered(self._user, tail + part)
            self._canaries.bytes += len(part)
            tail = (tail + part)[-LENGTH:]
            yield part

    def close(self) -> None:
        self._stream.close()


def found_in_tables(users: list[str]) -> list[tuple[str, str, list[str]]]:
    """Return what `Canaries.stored` checks: the canaries in the texts of every chat of these users."""
    return [
        (chat.owner.username, str(chat.pk), _found([*_rows_of(chat)]))
        for chat in Chat.objects.filter(owner__username__in=users).select_related("owner")
    ]


def _rows_of(chat: Chat) -> Iterator[Any]:
    yield chat.title
    yield from Message.objects.filter(chat=chat).values_list("content", "outline", "line")
    yield from ConversationBrief.objects.filter(chat=chat).values_list("global_summary", "state")
    yield from SummaryRevision.objects.filter(chat=chat).values_list("global_summary", "state", "retained")


def _found(rows: list[Any]) -> list[str]:
    told = json.dumps(rows, default=str).encode()
    return sorted({canary.decode() for canary in CANARY.findall(told)})
