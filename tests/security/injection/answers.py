"""Summarizers' answers that smuggle in a link or an order, in the format of each policy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from memory.limits import MemoryLimits
from memory.policies import POLICIES
from memory.policies.protocol import State
from tests.security.injection.corpus import LINKS, ORDERS
from tests.unit.context.makers import make_turn

BRINGS: Final = [*((link, "new_url") for link in LINKS), *((order, "new_instruction") for order in ORDERS)]
"""Texts that a summary might add, each with the code of its refusal."""

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
"""Answers with a placeholder, as good models write them. For other policies, `shape_of` makes one."""


def answer_with(policy: str, text: str) -> str:
    """Return a summarizer's answer that contains `text`."""
    shape = ANSWERS.get(policy) or shape_of(policy)
    if isinstance(shape, str):
        return shape.replace("{}", text)
    return json.dumps(shape).replace('"{}"', json.dumps(text))


def shape_of(policy: str) -> Any:
    """Return an answer as the policy requests it, with a placeholder for each text."""
    turns = [make_turn(0, "I like tea.", "Noted.")]
    ask = POLICIES[policy].ask(State(), turns, MemoryLimits())
    return "{}" if ask.schema is None else _filled(ask.schema.schema)


def _filled(schema: Mapping[str, Any]) -> Any:
    """Return a value of a JSON Schema, with a placeholder for each text."""
    kinds = schema.get("type", "string")
    kind = kinds if isinstance(kinds, str) else kinds[0]
    if kind == "object":
        return {name: _filled(inner) for name, inner in schema.get("properties", {}).items()}
    if kind == "array":
        return [_filled(schema["items"])]
    texts = {"string": schema.get("enum", ["{}"])[-1], "boolean": False, "null": None}
    return texts.get(kind, 1)
