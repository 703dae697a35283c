"""Memory cards at the end of replies (seed 002): a block in the text. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.support.fakes.connection import Request
from tests.support.fakes.objects import WRONG_TYPES, card

OPEN, CLOSE = "<MEMORY_CARD>", "</MEMORY_CARD>"
BEFORE = "Conversation context: "
"""The beginning of the message that contains the card so far."""


def wants_block(request: Request) -> bool:
    """Whether a reply should end with a card."""
    return OPEN in request.instructions


def card_of(request: Request, says: str, pattern: str) -> str:
    """Return the card after this question, as JSON: the codes of the card so far and of the question; or a bad card."""
    carried = "\n".join(text for _, text in request.said[:-1] if text.startswith(BEFORE))
    asked = request.said[-1][1] if request.said else ""
    right: dict[str, Any] = card(list(dict.fromkeys(re.findall(pattern, f"{carried}\n{asked}"))))
    if says == "wrong_types":
        right = {key: WRONG_TYPES[key] for key in right}
    text = json.dumps(right)
    return text[: len(text) // 2] if says in ("half", "bad_card") else text


def block(text: str, says: str) -> str:
    """Return the end of a reply that contains the card `text`."""
    if says == "no_card":
        return ""
    return f"\n\n{OPEN}{text}" + ("" if says == "open_card" else CLOSE)
