"""Summarizers' answers that smuggle in a link or an order, in the format of each policy."""

import json
from typing import Any, Final

from tests.security.injection.corpus import LINKS, ORDERS

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
"""Answers with a placeholder, as good models write them. Those of a policy that is not here are plain text."""


def answer_with(policy: str, text: str) -> str:
    """Return a summarizer's answer that contains `text`."""
    shape = ANSWERS.get(policy, "They talked on. {}")
    if isinstance(shape, str):
        return shape.replace("{}", text)
    return json.dumps(shape).replace('"{}"', json.dumps(text))
