"""Calls of one user or one app that take a server long, for `benchmarks.serving.many`: made in a process of their own.

So that process measures only how long others wait. It needs no Django.
"""

from __future__ import annotations

import asyncio
import json
import uuid
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import httpx

MB = 1024 * 1024
CHANGES, MEMBERS = 255, 1500
END_USERS = 300
NEW_END_USERS = 800
AT_ONCE = 4
CITATIONS = 60_000
IMPORTED_MESSAGES = 60_000
TIMEOUT = 180.0


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of a user or an app. An answer may be a refusal, but no error of the server."""

    port: int
    token: str

    def warm_up(self) -> None:
        """Load what is loaded at the first use."""
        with self._client() as client:
            for _ in range(4):
                client.post("message/first", json={"message": "Hello", "stream": False}).raise_for_status()
            client.post("chats/import", json=[_of_claude(["Hello", "Hi"])]).raise_for_status()

    def change(self) -> None:
        """Change all metadata of a chat, again and again."""
        with self._client() as client:
            path = f"chats/{client.post('chats', json={}).json()['id']}"

            def patch(body: str) -> None:
                _accept(client.patch(path, content=body, headers={"Content-Type": "application/json"}))

            values = ({f"k{member}": number for member in range(MEMBERS)} for number in range(CHANGES))
            bodies = [json.dumps({"metadata": one}) for one in values]
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(patch, bodies))

    def name_end_users(self) -> None:
        """Make end users, by a call for each."""
        with self._client() as client:

            def create(number: int) -> None:
                _accept(client.post("chats", json={}, headers={"X-Chatmemory-User": f"new-{number}"}))

            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(create, range(NEW_END_USERS)))

    def ask(self) -> None:
        """Ask for all end users at once, and read the replies."""
        asyncio.run(self._ask())

    async def _ask(self) -> None:
        body = json.dumps({"message": "Hello", "stream": True}).encode()

        async def one(number: int) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            head = (
                "POST /v1/message/first HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                f"Authorization: Bearer {self.token}\r\nX-Chatmemory-User: user-{number}\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            writer.write(head.encode() + body)
            status = await reader.readline()
            if status.split()[1] not in (b"200", b"429"):
                raise RuntimeError(status)
            while await reader.read(65536):
                pass
            writer.close()

        await asyncio.gather(*(one(number) for number in range(END_USERS)))

    def send_import(self, name: str) -> None:
        """Send an export twice: a client sends it again until it is done."""
        body = IMPORTS[name]()
        with self._client() as client:
            kind = "application/zip" if body.startswith(b"PK") else "application/json"
            for _ in range(2):
                _accept(client.post("chats/import", content=body, headers={"Content-Type": kind}))

    def _client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.token}"}
        base = f"http://127.0.0.1:{self.port}/v1/"
        return httpx.Client(base_url=base, headers=headers, timeout=TIMEOUT, verify=False)


def _accept(answer: httpx.Response) -> None:
    if answer.status_code >= 500 and answer.status_code != 503:
        raise RuntimeError(answer.text[:2000])


def _of_claude(texts: list[str]) -> dict[str, Any]:
    senders = ("human", "assistant")
    said = [{"sender": senders[number % 2], "text": text} for number, text in enumerate(texts)]
    return {"uuid": str(uuid.uuid4()), "chat_messages": said}


def _of_chatgpt(text: str) -> dict[str, Any]:
    said = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": [text]}}
    node: dict[str, Any] = {"id": "a", "message": said, "parent": None, "children": []}
    return {"conversation_id": str(uuid.uuid4()), "current_node": "a", "mapping": {"a": node}}


def _zipped(text: bytes) -> bytes:
    made = BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", text)
    return made.getvalue()


def _citations() -> bytes:
    return json.dumps([_of_chatgpt("\ue200cite\ue202" * CITATIONS)], ensure_ascii=False).encode()


def _long_chat() -> bytes:
    return json.dumps([_of_claude(["Where is it?", "On its way."] * (IMPORTED_MESSAGES // 2))]).encode()


IMPORTS: dict[str, Callable[[], bytes]] = {
    f"an import of {CITATIONS:,} citations": _citations,
    f"a chat of {IMPORTED_MESSAGES:,} messages, imported": _long_chat,
    "a zip of 512 MB of spaces": lambda: _zipped(b" " * (512 * MB)),
    "a zip of 60 million empty chats": lambda: _zipped(b"[" + b"{}," * (60 * MB) + b"{}]"),
}
"""Exports that take a careless server long."""
