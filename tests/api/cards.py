"""Helpers for tests of the policy `card` over HTTP: its chats, replies that bring a card, the outcome of each card."""

import json
from typing import Any
from urllib.parse import quote

from memory.policies.card import CARD_CLOSE, CARD_OPEN, CONTEXT
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

GOAL = {"goal": "Learn vibrato", "decisions": ["Practice 10 min daily"], "lesson_context": "intermediate"}


def card_chat(client: Client, **options: Any) -> str:
    """Create a chat with the policy `card`."""
    answer = client.post("chats", json={"policy": "card", "options": options})
    assert answer.status_code == 201, answer.text
    found: str = answer.json()["id"]
    return found


def card_behaviour(text: str, card: object = None, *, block: str = "") -> str:
    """Return a behaviour of the upstream: it sends `text`, and ends with the card or the block."""
    said = text + (f"\n\n{CARD_OPEN}{json.dumps(card)}{CARD_CLOSE}" if card is not None else block)
    return f"normal?text={quote(said)}"


def carried(upstream: FakeUpstream) -> str:
    """Return the card in the prompt of the last call; "" if there is none."""
    said = [text for _, text in upstream.calls("stream")[-1].said if text.startswith(CONTEXT)]
    assert len(said) <= 1
    return said[0].removeprefix(CONTEXT) if said else ""
