"""Keys by which a history that a client sends is found again. Pure.

A key is a rolling hash over everything said so far, so it stands for the whole history: two conversations have the same
key only where they are the same to the word. It begins with a secret and the user, so that nobody's history is ever
found by another's, and a key alone tells nothing of a text.
"""

from __future__ import annotations

import hashlib
import hmac
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from conversations.openai_api.chat_request import Said


@dataclass(frozen=True, slots=True)
class HistoryKeys:
    """The keys of one request."""

    before: bytes | None
    """Of the history up to the last question that was answered; None where there is none."""
    asked: bytes
    """Of the history with the new question: the `before` of the request that follows."""
    last_question: bytes | None
    """Of the last answered question alone."""
    question: bytes
    """Of the new question alone: the `last_question` of the request that follows."""


def history_keys(secret: bytes, user_id: int, history: Sequence[Said], question: str) -> HistoryKeys:
    """The keys of a request. Costs what was sent, and nothing for what is stored."""
    start = hmac.digest(secret, f"history:{user_id}".encode(), "sha256")
    key, before = start, None
    for said in history:
        key = _next(key, said)
        if said.role == "user":
            before = key
    asked = _next(key, Said("user", question))
    answered = next((said for said in reversed(history) if said.role == "user"), None)
    return HistoryKeys(
        before,
        asked,
        None if answered is None else _next(start, answered),
        _next(start, Said("user", question)),
    )


def answers_alike(stored: str, sent: str) -> bool:
    """Whether a client that sends this answer has read the stored one: whole, or until it stopped reading."""
    return normalized(stored).startswith(normalized(sent))


def normalized(text: str) -> str:
    """`text` without what clients change on the way: space around it, ends of lines, composed letters."""
    return unicodedata.normalize("NFC", text.replace("\r\n", "\n")).strip()


def _next(key: bytes, said: Said) -> bytes:
    digest = hashlib.sha256(key)
    digest.update(said.role.encode())
    digest.update(b"\0")
    digest.update(normalized(said.content).encode())
    return digest.digest()
