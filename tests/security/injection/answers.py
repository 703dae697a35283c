"""Summarizers' answers that bring something along, in the form that each policy asks for. Data alone."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.security.injection.corpus import LINKS, ORDERS

BRINGS: Final = [*((link, "new_url") for link in LINKS), *((order, "new_instruction") for order in ORDERS)]
"""What a summary may bring along, and how it is refused."""

ANSWERS: Final[dict[str, Any]] = {
    "chunked": "{}",
    "interval": "They talked on. {}",
    "progressive": {"important_data": {"important_facts": ["{}"]}, "summary": "They talked."},
    "hierarchical": {
        "facts": [{"key": "k", "value": "{}", "category": "GENERAL"}],
        "narrative": "They talked.",
    },
    "card": {"goal": "g", "decisions": ["{}"]},
}
"""An answer under each policy, and a place in it."""


def answer_with(policy: str, text: str) -> str:
    """A summarizer's answer that says `text` somewhere."""
    shape = ANSWERS[policy]
    if isinstance(shape, str):
        return shape.replace("{}", text)
    return json.dumps(shape).replace('"{}"', json.dumps(text))
