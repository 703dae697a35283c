"""Keys by which a history that a client sends is found again. Pure.

A key is a rolling hash over everything said so far, so it stands for the whole history: two conversations have the same
key only where they are the same to the word. It begins with a secret and the user, so that nobody's history is ever
found by another's, and a key alone tells nothing of a text.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from chatmemory.llm.protocol import ToolCall
from conversations.openai_api.request.history import Said


@dataclass(frozen=True, slots=True)
class HistoryKeys:
    """The keys of one request."""

    before: bytes | None
    """Of the history before its last answer; None where nothing was answered."""
    asked: bytes
    """Of the history with what is new: the `before` of the request that follows."""
    last_question: bytes | None
    """Of what was answered last alone: a question, or the outputs of tools."""
    question: bytes
    """Of what is new alone: the `last_question` of the request that follows."""


def history_keys(secret: bytes, user_id: int, history: Sequence[Said], new: Sequence[Said]) -> HistoryKeys:
    """The keys of a request. Costs what was sent, and nothing for what is stored."""
    start = hmac.digest(secret, f"history:{user_id}".encode(), "sha256")
    key, before = start, None
    last = alone = start
    for said in history:
        key = _next(key, said)
        if said.role == "assistant":
            alone = start
        else:
            before, last = key, _next(alone, said)
            alone = last
    return HistoryKeys(before, _all(key, new), None if before is None else last, _all(start, new))


def _all(key: bytes, said: Sequence[Said]) -> bytes:
    return reduce(_next, said, key)


def answers_alike(stored: str, sent: str) -> bool:
    """Whether a client that sends this answer has read the stored one: whole, or until it stopped reading."""
    return normalized(stored).startswith(normalized(sent))


def normalized(text: str) -> str:
    """`text` without what clients change on the way: space around it, ends of lines, composed letters."""
    return unicodedata.normalize("NFC", text.replace("\r\n", "\n")).strip()


def calls_alike(stored: Sequence[ToolCall], sent: Sequence[ToolCall]) -> bool:
    """Whether a client sends the calls that are stored; how their arguments are written does not matter."""
    return [_written(call) for call in stored] == [_written(call) for call in sent]


def _written(call: ToolCall) -> str:
    try:
        arguments = json.dumps(json.loads(call.arguments), sort_keys=True)
    except (ValueError, RecursionError):
        arguments = call.arguments
    return json.dumps([call.id, call.name, arguments])


def _next(key: bytes, said: Said) -> bytes:
    digest = hashlib.sha256(key)
    digest.update(said.role.encode())
    digest.update(b"\0")
    digest.update(normalized(said.content).encode())
    for call in said.calls:
        digest.update(b"\0call")
        digest.update(_written(call).encode())
    if said.call_id:
        digest.update(b"\0output")
        digest.update(said.call_id.encode())
    for one in said.attachments:
        digest.update(b"\0attached")
        digest.update((one.sha256 or one.url).encode())
    return digest.digest()
