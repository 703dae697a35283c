"""Helpers for tests over HTTP: start a turn, leave it, and read the result."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from openai import OpenAI

from conversations.models import ActiveReply, Message
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, Event
from tests.support.waiting import wait_for

MESSAGE_KEYS = (
    "id chat_id seq role content status model_variant model token_count reply_to superseded_by is_first "
    "created_at completed_at edited_at muted usage error metadata"
).split()
"""The fields of a message, as the contract lists them."""


@dataclass(frozen=True)
class Turn:
    """The ids of a turn."""

    chat: str
    question: str
    reply: str

    @classmethod
    def of(cls, body: dict[str, Any]) -> Turn:
        """Read the ids from `message.created`, or from the body of `"stream": false`."""
        reply = body["message_id"] if "message_id" in body else body["message"]["id"]
        return cls(body["chat_id"], body["user_message_id"], reply)

    @property
    def path(self) -> str:
        """The path of the reply."""
        return f"chats/{self.chat}/messages/{self.reply}"


def say(client: Client, message: str = "Hello", chat: str | None = None, **fields: Any) -> list[Event]:
    """Send a message and read all events."""
    body = {"message": message, **({"chat_id": chat} if chat else {}), **fields}
    return client.events("POST", "message" if chat else "message/first", json=body)


@contextmanager
def open_stream(
    client: Client, message: str = "Hello", chat: str | None = None, **fields: Any
) -> Iterator[tuple[Turn, Iterator[Event]]]:
    """Send a message and read `message.created`; the test reads the rest of the events."""
    body = {"message": message, **({"chat_id": chat} if chat else {}), **fields}
    with client.stream("POST", "message" if chat else "message/first", json=body) as events:
        created = next(events)
        assert created.name == "message.created", created
        yield Turn.of(created.data), events


def begin_reply(client: Client, message: str = "Hello", chat: str | None = None, **fields: Any) -> Turn:
    """Send a message and leave as soon as it is accepted."""
    with open_stream(client, message, chat, **fields) as (turn, _):
        return turn


def reply(client: Client, turn: Turn) -> dict[str, Any]:
    """Return the reply of a turn as it is now."""
    answer = client.get(turn.path)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def final(client: Client, turn: Turn) -> dict[str, Any]:
    """Return the reply of a turn, once it is final."""
    last: dict[str, Any] = wait_for(lambda: (now := reply(client, turn)) and now["status"] != "streaming" and now)
    return last


def messages(client: Client, chat: str, **query: Any) -> list[dict[str, Any]]:
    """Return all messages of a chat (up to 200)."""
    found: list[dict[str, Any]] = client.get(f"chats/{chat}/messages", params={"limit": 200, **query}).json()["results"]
    return found


def pins(client: Client, chat: str, **query: Any) -> list[dict[str, Any]]:
    """Return the pins of a chat, newest first."""
    answer = client.get(f"chats/{chat}/pins", params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["results"]
    return found


def paged(client: Client, path: str) -> list[dict[str, Any]]:
    """Return all results of a list, page by page; assert that paging back gives the same pages."""
    pages, back = [client.get(path).json()], []
    while following := pages[-1]["next"]:
        pages.append(client.http.get(following).json())
    assert set(pages[0]) == {"results", "next", "previous"}
    at: dict[str, Any] = pages[-1]
    while at["previous"]:
        at = client.http.get(at["previous"]).json()
        back.append(at["results"])
    assert back[::-1] == [page["results"] for page in pages[:-1]]
    return [result for page in pages for result in page["results"]]


def error(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Return the error of an answer; assert that it has the common form of all errors."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert set(body) == {"error"}
    found: dict[str, Any] = body["error"]
    of_openai = {"type", "param"} if "type" in found else set[str]()
    assert {"code", "message"} | of_openai <= set(found) <= {"code", "message", "details"} | of_openai
    assert found["code"] == code
    assert found["message"]
    assert isinstance(found["message"], str)
    return found


def hold_replies(upstream: FakeUpstream, deltas: int = 12, after: int = 3, **numbers: Any) -> None:
    """Make replies from now on wait after `after` deltas, until `upstream.release()`."""
    upstream.behave("normal", lane="stream", **{"deltas": deltas, "hold_after": after, **numbers})
    upstream.hold()


def heard(events: Iterator[Event], words: int = 3) -> str:
    """Read deltas until there are `words` words: the contract does not say how text is split into deltas."""
    said = ""
    while said.count(" ") < words:
        said += next(events).data["delta"]
    return said


def orphan(client: Client, upstream: FakeUpstream, text: str) -> Turn:
    """Begin a reply whose process is gone: its row is as the last checkpoint left it, and nothing writes to it."""
    hold_replies(upstream)
    turn = begin_reply(client)
    wait_for(lambda: upstream.held() == 1)
    ActiveReply.objects.filter(message_id=turn.reply).update(lease_owner="gone:1:0")
    upstream.wait_until(lambda fake: fake.active == 0)  # the process that really wrote it has noticed
    ActiveReply.objects.filter(message_id=turn.reply).update(text=text)
    upstream.behave("normal")
    upstream.release()
    assert not Message.objects.filter(pk=turn.reply).exists()
    return turn


def chunks(text: str) -> list[dict[str, Any]]:
    """Return what a stream of OpenAI's APIs told, without its `[DONE]`."""
    return [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]


def sdk(client: Client, **options: Any) -> OpenAI:
    """Return the SDK with a user's token. It raises if an answer does not match its schema."""
    return OpenAI(
        base_url=f"{client.base}/v1",
        api_key=client.token,
        _strict_response_validation=True,
        max_retries=options.pop("max_retries", 0),
        **options,
    )
