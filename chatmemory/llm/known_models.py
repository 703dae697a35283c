"""Known models, by name: default prices, and how much room they need to reason before they answer.

Upstreams count reasoning towards the output limit. A limit with room only for the answer cuts such a model off before
it has written anything.
"""

import re
from decimal import Decimal

from chatmemory.llm.protocol import Price, Variant

_LIST = {
    "gpt-5.1": ("1.25", "0.125", "10"),
    "gpt-5": ("1.25", "0.125", "10"),
    "gpt-5-mini": ("0.25", "0.025", "2"),
    "gpt-5-nano": ("0.05", "0.005", "0.4"),
    "text-embedding-3-small": ("0.02", "0.02", "0"),
    "text-embedding-3-large": ("0.13", "0.13", "0"),
}
"""OpenAI's list prices in USD per million tokens, as of 2025-11."""

ROOM = {"none": 0, "minimal": 1_000, "low": 4_000, "medium": 8_000, "high": 16_000, "xhigh": 32_000}
"""Tokens by effort. Unused room costs nothing, but OpenAI counts it towards its rate limits."""

DEFAULT_EFFORT = "medium"
"""The effort of a reasoning model if a request names none."""

_REASONS = re.compile(r"(?:[\w.-]+/)*(?:gpt-5(?:-mini|-nano|-pro)?|o[134](?:-\w+)?)(?:-\d{4}-\d\d-\d\d)?")
"""OpenAI's models that reason by default; from GPT-5.1 on they do not."""


def price_of(model: str) -> Price | None:
    """The list price of `model`, or None if it is not in the table."""
    numbers = _LIST.get(model)
    return Price(*(Decimal(number) for number in numbers)) if numbers else None


def output_limit(variant: Variant, answer: int) -> int:
    """The output limit of a request whose answer may take `answer` tokens, without reasoning.

    If the variant has a limit, that is used, but never less than the answer needs.
    """
    if variant.max_output_tokens:
        return max(variant.max_output_tokens, answer)
    by_default = DEFAULT_EFFORT if _REASONS.fullmatch(variant.model) else "none"
    return answer + ROOM[variant.reasoning_effort or by_default]
