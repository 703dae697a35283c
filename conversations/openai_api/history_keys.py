"""Keys by which a history that a client sends is found again. Pure.

A key is a rolling hash over everything said so far, so it identifies the whole history: two conversations have the
same key only if they are the same word for word. It begins with a secret, the user, and the end user that the request
names, so that no history is ever found by another one's, and a key by itself reveals nothing of a text. The ids of
tool calls are not part of it, because some clients make them anew.
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
from conversations.openai_api.history import HistoryMessage


@dataclass(frozen=True, slots=True)
class HistoryKeys:
    """The keys of one request."""

    before: bytes | None
    """Key of the history before its last answer; None if there is no answer in it."""
    asked: bytes
    """Key of the history including the new messages: the `before` of the next request."""
    last_question: bytes | None
    """Key of only the messages answered last: a question, or the outputs of tools."""
    question: bytes
    """Key of only the new messages: the `last_question` of the next request."""


def history_keys(
    secret: bytes,
    user_id: int,
    history: Sequence[HistoryMessage],
    new: Sequence[HistoryMessage],
    end_user: str = "",
) -> HistoryKeys:
    """Return the keys of a request. The cost depends on what was sent, not on what is stored."""
    start = hmac.digest(secret, f"history:{user_id}".encode(), "sha256")
    if end_user:
        start = hmac.digest(start, f"end user:{end_user}".encode(), "sha256")
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


def _all(key: bytes, said: Sequence[HistoryMessage]) -> bytes:
    return reduce(_next, said, key)


def normalized(text: str) -> str:
    """Return `text` without what clients change on the way: surrounding space, line endings, composed letters."""
    return unicodedata.normalize("NFC", text.replace("\r\n", "\n")).strip()


def calls_alike(stored: Sequence[ToolCall], sent: Sequence[ToolCall]) -> bool:
    """Whether a client sends the calls that are stored, whatever their ids and the formatting of their arguments."""
    return [_written(call) for call in stored] == [_written(call) for call in sent]


def _written(call: ToolCall) -> str:
    try:
        arguments = json.dumps(json.loads(call.arguments), sort_keys=True)
    except (ValueError, RecursionError):
        arguments = call.arguments
    return json.dumps([call.name, arguments])


def _next(key: bytes, said: HistoryMessage) -> bytes:
    digest = hashlib.sha256(key)
    digest.update(said.role.encode())
    digest.update(b"\0")
    digest.update(normalized(said.content).encode())
    for call in said.calls:
        digest.update(b"\0call")
        digest.update(_written(call).encode())
    if said.call_id:
        digest.update(b"\0output")
    for one in said.attachments:
        digest.update(b"\0attached")
        digest.update((one.sha256 or one.url).encode())
    return digest.digest()
