"""Users of servers that may die at any moment: they retry under the same key, and reconnect for the rest of a reply.

A turn is over when its final event arrived. Whatever clients are told goes into a journal. A user who roams picks a
random server for every request, as behind a load balancer that does not know that one is down. Others use the first
server, and switch to the next when it fails.
"""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

import httpx

from memory.policies import POLICIES
from tests.faults.bench.journal import Journal, Turn
from tests.support.live_server import Event, parse_events

PATIENCE = 60.0
"""Seconds in which every turn must end, whatever happens to the servers (P6)."""
RETRY_SECONDS = 0.05
WORDS = "we went over the plan for the garden once more and agreed on the next small step"


_letters = (chr(65 + number // 26 % 26) + chr(65 + number % 26) for number in count())


class Broken(Exception):
    """No answer, a 5xx, or a stream that ended early."""


@dataclass(frozen=True)
class How:
    """How a turn is asked. With `leave` or `cancel`, the user does so once, when the first words arrive."""

    stream: bool = True
    leave: bool = False
    cancel: bool = False
    variant: str = ""


PLAIN = How()


class Person:
    """A user with a token, in one chat at a time. Each of their messages has a code of its own."""

    def __init__(self, name: str, token: str, urls: Sequence[str], journal: Journal, *, roams: bool = False) -> None:
        self.name, self.journal = name, journal
        self._urls, self._at, self._roams = urls, 0, roams
        self.random = random.Random(name)
        self._http = httpx.Client(verify=False, headers={"Authorization": f"Bearer {token}"}, timeout=20)
        self._letters = next(_letters)
        self.chat_id = ""
        self.said: list[Turn] = []
        """The turns of the current chat."""
        self._count = 0
        self._asked: dict[str, tuple[str, dict[str, Any]]] = {}

    def close(self) -> None:
        self._http.close()

    def say(self, how: How = PLAIN) -> Turn:
        """Send the next message, in a new chat if there is none, and read the reply to its end."""
        self._count += 1
        text = f"{self.name} asks to note {self.code(self._count)}: {WORDS}"
        turn = Turn(self.name, f"{self.name}-{self._count}", text)
        place = {"chat_id": self.chat_id} if self.chat_id else {"policy": self.random.choice([*POLICIES])}
        body = {"message": text, **place}
        self._hear_out(turn, "message" if self.chat_id else "message/first", body, how)
        self.chat_id = turn.chat_id
        self.said.append(turn)
        return turn

    def again(self, last: Turn, how: How = PLAIN) -> Turn:
        """Regenerate the answer of the chat's last turn."""
        self._count += 1
        turn = Turn(self.name, f"{self.name}-{self._count}", last.text, again=True)
        path = f"chats/{last.chat_id}/messages/{last.reply_id}/regenerate"
        self._hear_out(turn, path, {}, how)
        self.said.append(turn)
        return turn

    def code(self, number: int) -> str:
        """Return a fact to note, whose letters are this user's."""
        return f"{self._letters}-{number:04}"

    def new_chat(self) -> None:
        """Send the next message in a new chat."""
        self.chat_id, self.said = "", []

    def repeat(self, turn: Turn) -> None:
        """Send a finished turn again under its key. The journal checks that the server says the same."""
        path, asked = self._asked[turn.key]
        self._read(turn, "POST", path, 0, PLAIN, **{**asked, "json": {**asked["json"], "stream": True}})

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request, retried until it is answered by anything but a 5xx."""
        deadline = time.monotonic() + PATIENCE
        while True:
            with suppress(Broken):
                return self._once(method, path, **options)
            assert time.monotonic() < deadline, f"{method} {path} is not answered"
            time.sleep(RETRY_SECONDS)

    def _hear_out(self, turn: Turn, path: str, body: dict[str, Any], how: How) -> None:
        self.journal.turns.append(turn)
        body |= {"model_variant": how.variant} if how.variant else {}
        asked = {"json": {**body, "stream": how.stream}, "headers": {"Idempotency-Key": turn.key}}
        self._at = 0
        self._asked[turn.key] = (path, asked)
        deadline = time.monotonic() + PATIENCE
        while turn.final is None:
            if time.monotonic() > deadline:
                self.journal.problem(turn, f"not final after {PATIENCE:g} s")
                return
            try:
                if turn.reply_id and self.random.random() < 0.5:
                    self._resume(turn)
                elif how.stream:
                    self._read(turn, "POST", path, 0, how, **asked)
                else:
                    self._whole(turn, self._once("POST", path, **asked))
            except Broken:
                turn.broke()
                time.sleep(RETRY_SECONDS)
            if turn.is_interrupted:
                how = How(stream=how.stream)

    def _resume(self, turn: Turn) -> None:
        path = f"chats/{turn.chat_id}/messages/{turn.reply_id}/stream"
        self._read(turn, "GET", path, len(turn.seen), PLAIN, headers={"Last-Event-ID": str(len(turn.seen))})

    def _once(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request once. A failed reply, reported completely, is a valid answer. Raises `Broken`."""
        begun = time.monotonic()
        try:
            answer = self._http.request(method, self._url(path), **options)
        except httpx.TransportError as exc:
            raise self._broken(begun, type(exc).__name__) from None
        if answer.status_code >= 500 and not _failed_reply(answer):
            raise self._broken(begun, str(answer.status_code))
        return answer

    def _read(self, turn: Turn, method: str, path: str, position: int, how: How, **options: Any) -> None:
        """Read a stream from `position` to its final event. Raises `Broken` if that does not come."""
        begun = time.monotonic()
        try:
            with self._http.stream(method, self._url(path), **options) as answer:
                if answer.status_code == 200:
                    self._follow(turn, parse_events(answer.iter_lines()), turn.seen[:position], how)
                    return
                answer.read()
        except httpx.TransportError as exc:
            raise self._broken(begun, type(exc).__name__) from None
        if answer.status_code >= 500:
            raise self._broken(begun, str(answer.status_code))
        self._refused(turn, answer)

    def _follow(self, turn: Turn, events: Iterator[Event], text: str, how: How) -> None:
        for event in events:
            told = event.data
            if event.name == "message.created":
                self.journal.created(turn, told["chat_id"], told["user_message_id"], told["message_id"])
            elif event.name == "content.delta":
                text += told["delta"]
                if event.id != str(len(text)):
                    self.journal.problem(turn, f"a delta ends at {event.id} and not at {len(text)}")
                self.journal.heard(turn, text)
                turn.is_interrupted |= how.leave or how.cancel
                if how.cancel:
                    self._cancel(turn)
                if how.leave or how.cancel:
                    return
            elif event.name != "reconnect":
                self.journal.ended(turn, told["message"], text)
                return
        raise Broken

    def _cancel(self, turn: Turn) -> None:
        """Cancel the reply; a 409 means that it is already over."""
        with suppress(Broken):
            answer = self._once("POST", f"chats/{turn.chat_id}/messages/{turn.reply_id}/cancel")
            if answer.status_code == 200:
                self.journal.ended(turn, answer.json()["message"])
            elif answer.status_code != 409:
                self.journal.problem(turn, f"cancelling was answered by {answer.status_code}")

    def _whole(self, turn: Turn, answer: httpx.Response) -> None:
        told = answer.json() if answer.status_code == 200 else _failed_reply(answer)
        if not told:
            self._refused(turn, answer)
            return
        self.journal.created(turn, told["chat_id"], told["user_message_id"], told["message"]["id"])
        self.journal.ended(turn, told["message"])

    def _refused(self, turn: Turn, answer: httpx.Response) -> None:
        """Handle a refusal. Only one is right: a reply is still being written in this chat."""
        error = answer.json()["error"]
        if (answer.status_code, error["code"]) != (409, "chat_busy"):
            self.journal.problem(turn, f"{answer.status_code} {error}")
        raise Broken

    def _broken(self, begun: float, how: str) -> Broken:
        self.journal.refused.append((begun, time.monotonic(), how))
        self._at += 1
        return Broken(how)

    def _url(self, path: str) -> str:
        url = self.random.choice(self._urls) if self._roams else self._urls[self._at % len(self._urls)]
        return f"{url}/v1/{path}"


def _failed_reply(answer: httpx.Response) -> dict[str, Any] | None:
    """Return the turn from the answer about a whole reply that failed; None for other answers."""
    with suppress(ValueError, KeyError, TypeError):
        details: dict[str, Any] = answer.json()["error"]["details"]
        return details if isinstance(details["message"], dict) else None
    return None
