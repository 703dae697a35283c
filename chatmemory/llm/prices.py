"""Default prices of models: OpenAI's list prices in USD per million tokens, as of 2025-11."""

from __future__ import annotations

from decimal import Decimal

from chatmemory.llm.protocol import Price

_LIST = {
    "gpt-5.1": ("1.25", "0.125", "10"),
    "gpt-5": ("1.25", "0.125", "10"),
    "gpt-5-mini": ("0.25", "0.025", "2"),
    "gpt-5-nano": ("0.05", "0.005", "0.4"),
    "text-embedding-3-small": ("0.02", "0.02", "0"),
    "text-embedding-3-large": ("0.13", "0.13", "0"),
}


def price_of(model: str) -> Price | None:
    """The list price of `model`, or None if it is not in the table."""
    numbers = _LIST.get(model)
    return Price(*(Decimal(number) for number in numbers)) if numbers else None
