"""Helpers for tests of OpenAI clients that send a history of plain messages."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import httpx

from conversations.models import Message
from tests.support.live_server import Client

NAME = "x-chatmemory-conversation-id"
DECISION = "x-chatmemory-conversation"


def send(
    client: Client, messages: list[dict[str, Any]], headers: Mapping[str, str] | None = None, **body: Any
) -> httpx.Response:
    """Send a request and return its response."""
    answer: httpx.Response = client.post(
        "chat/completions", json={"model": "arco", "messages": messages, **body}, headers=dict(headers or {})
    )
    assert answer.status_code == 200, answer.text
    return answer


def answer_text(answer: httpx.Response) -> str:
    return str(answer.json()["choices"][0]["message"]["content"])


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def questions(chat_id: UUID | str) -> list[str]:
    """The questions that a chat holds, in order."""
    rows = Message.objects.filter(chat_id=chat_id, role="user", superseded_by=None).order_by("seq")
    return list(rows.values_list("content", flat=True))
