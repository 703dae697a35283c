"""Users who do everything the API offers, one call after the other, while servers come and go.

A call that was under way at a server that is told to stop may end early: it is sent again under the same key, to a
server that stays. Any other call that is not answered as it should be has failed. What the answers said is kept, to be
compared with what is stored in the end.
"""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx

from tests.processes.prompts import code
from tests.support.exports import claude
from tests.support.fakes.behaviours import lorem
from tests.support.live_server import parse_events
from tests.support.waiting import wait_for

PATIENCE = 60.0
"""Seconds in which every call must be answered, whatever happens to the servers (P6)."""
RETRY_SECONDS = 0.05
WORDS = 60


@dataclass
class Rotation:
    """The servers that get new calls, as a load balancer knows them, and what became of all calls."""

    servers: list[str]
    stopping: set[str] = field(default_factory=set)
    done: int = 0
    slowest: float = 0.0
    """Seconds of the call that took longest."""
    drained: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def stop(self, url: str) -> None:
        """Send no more calls to this server, which is about to be told to stop."""
        self.stopping.add(url)
        self.servers.remove(url)

    def more(self, calls: int) -> None:
        """Wait until that many more calls are done, or one has failed."""
        enough = self.done + calls
        wait_for(lambda: self.done >= enough or self.failed, f"{calls} more calls")
        assert self.failed == []


class Caller:
    """A user with two chats: one of the REST API, one of an OpenAI client."""

    def __init__(self, name: str, token: str, rotation: Rotation) -> None:
        self.name, self.rotation = name, rotation
        self.random = random.Random(name)
        self._http = httpx.Client(
            verify=False,
            headers={"Authorization": f"Bearer {token}"},
            timeout=30,
            limits=httpx.Limits(keepalive_expiry=2),
        )
        self.chat = ""
        self.history: list[dict[str, str]] = []
        self.questions: list[str] = []
        self.told: dict[str, dict[str, str]] = {}
        """The text of each message of a chat, by the ids of both."""
        self._count = 0

    def round(self) -> None:
        """Do everything once, and the most frequent several times."""
        for act in (self.say, self.say, self.complete, self.pin, self.look, self.say, self.edit, self.search):
            act()
        for act in (self.bring, self.complete, self.say, self.forget, self.again):
            act()
        if len(self.questions) > 20:
            self.chat, self.questions = "", []

    def say(self) -> None:
        """Send the next message, streamed, in a new chat if there is none."""
        text = self._text()
        place = {"chat_id": self.chat} if self.chat else {}
        self._reply(text, "message" if self.chat else "message/first", {"message": text, **place})

    def again(self) -> None:
        """Regenerate the newest answer."""
        newest = self._json("GET", f"chats/{self.chat}/messages?order=desc&limit=1")["results"][0]
        self._reply("", f"chats/{self.chat}/messages/{newest['id']}/regenerate", {})

    def complete(self) -> None:
        """Send the whole history, as OpenAI's clients do; every other time streamed."""
        self.history.append({"role": "user", "content": self._text()})
        body = {"model": "arco", "messages": self.history, "stream": self._count % 2 == 0}
        answer = self._call("POST", "chat/completions", json=body, headers={"Idempotency-Key": str(uuid4())})
        if body["stream"]:
            lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
            pieces = [choice["delta"].get("content") or "" for line in lines for choice in json.loads(line)["choices"]]
            said = "".join(pieces)
        else:
            said = answer.json()["choices"][0]["message"]["content"]
        self.history.append({"role": "assistant", "content": said})

    def edit(self) -> None:
        """Change a question."""
        message, text = self.random.choice(self.questions[-6:]), self._text()
        self._call("PATCH", f"chats/{self.chat}/messages/{message}", json={"content": text})
        self.told[self.chat][message] = text

    def forget(self) -> None:
        """Delete a question, but not the newest, whose answer is regenerated."""
        message = self.questions.pop(self.random.randrange(len(self.questions) - 1))
        self._call("DELETE", f"chats/{self.chat}/messages/{message}")
        del self.told[self.chat][message]

    def pin(self) -> None:
        self._call("POST", f"chats/{self.chat}/pins", json={"text": f"Always mention {code(self._next())}."})

    def look(self) -> None:
        """Read what pages show."""
        self._json("POST", f"chats/{self.chat}/context", json={"message": "What was noted?"})
        for path in ("brief", "revisions", "pins", "messages"):
            self._json("GET", f"chats/{self.chat}/{path}")
        assert self.chat in {chat["id"] for chat in self._json("GET", "chats?limit=200")["results"]}

    def search(self) -> None:
        assert self._json("POST", "search", json={"q": "note please"})["results"]

    def bring(self) -> None:
        """Import a conversation of another service."""
        told = self._json("POST", "chats/import", json=[claude(f"{self.name}-{self._next()}")])
        assert (told["failed"], told["chats"] + told["already_there"]) == (0, 1), told

    def compare(self) -> None:
        """Everything that was told is there."""
        for chat, told in self.told.items():
            kept: dict[str, str] = {}
            path: str | None = f"chats/{chat}/messages?limit=200"
            while path:
                page = self._json("GET", path)
                kept |= {message["id"]: message["content"] for message in page["results"]}
                path = page["next"] and page["next"].partition("/v1/")[2]
            assert {message: kept.get(message) for message in told} == told
        self._http.close()

    def _reply(self, text: str, path: str, body: dict[str, Any]) -> None:
        answer = self._call("POST", path, json=body, headers={"Idempotency-Key": str(uuid4())})
        first, *_, last = parse_events(iter(answer.text.splitlines()))
        self.chat, message = first.data["chat_id"], last.data["message"]
        told = self.told.setdefault(self.chat, {})
        told[message["id"]] = message["content"]
        if text:
            self.questions.append(first.data["user_message_id"])
            told[self.questions[-1]] = text

    def _json(self, method: str, path: str, **options: Any) -> Any:
        return self._call(method, path, **options).json()

    def _call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request to any server of the rotation until it is answered."""
        deadline, was_drained = time.monotonic() + PATIENCE, False
        while True:
            url, started = self.random.choice(self.rotation.servers), time.monotonic()
            try:
                answer = self._http.request(method, f"{url}/v1/{path}", **options)
                how = _fault(answer)
            except httpx.TransportError as exc:
                how = type(exc).__name__
            if not how:
                self.rotation.done += 1
                self.rotation.slowest = max(self.rotation.slowest, time.monotonic() - started)
                return answer
            what = f"{method} {path}: {how}"
            if url in self.rotation.stopping:
                self.rotation.drained.append(what)
                was_drained = True
            elif not (was_drained and " 409 " in what):  # the reply goes on at the server that stops
                self.rotation.failed.append(what)
                raise AssertionError(what)
            assert time.monotonic() < deadline, f"{what} is not answered"
            time.sleep(RETRY_SECONDS)

    def _text(self) -> str:
        return f"Note {code(self._next())}, please: {lorem(WORDS)}"

    def _next(self) -> int:
        self._count += 1
        return self._count


def _fault(answer: httpx.Response) -> str:
    """What is wrong with an answer; empty if nothing is."""
    if answer.status_code >= 300:
        return f"a {answer.status_code} {answer.text[:300]}"
    if not answer.headers.get("content-type", "").startswith("text/event-stream"):
        return ""
    end = answer.text.strip().rpartition("\n\n")[2]
    is_whole = "event: message.completed" in end or end == "data: [DONE]"
    return "" if is_whole else f"a stream that ends with {end[:40]} … {end[-500:]}"
