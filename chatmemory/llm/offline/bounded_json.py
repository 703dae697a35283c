"""JSON that keeps to a number of tokens: items are taken while they fit, and dropped again if the whole does not.

Joined text can cost more than its parts, so the parts only plan and the whole decides.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from chatmemory.text.tokens import clip_end, count_tokens

Item = TypeVar("Item")


def dumps(value: object) -> str:
    """`value` as compact JSON, its letters as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def cost(value: object) -> int:
    """Tokens of `value` as JSON."""
    return count_tokens(dumps(value))


def take(items: Iterable[Item], room: int, most: int = 100) -> list[Item]:
    """At most `most` of `items`, in order: each that fits in what the ones before it left of `room` tokens.

    An item costs what it costs alone: its outer quotes or braces pay for the comma, nearly always.
    """
    taken: list[Item] = []
    for item in items:
        price = cost(item)
        if price <= room:
            taken.append(item)
            room -= price
        if len(taken) == most or room < 2:
            break
    return taken


def fit(value: dict[str, Any], max_tokens: int, order: Sequence[str], *, oldest_first: bool = False) -> str:
    """`value` as JSON of at most `max_tokens`, its fields emptied in `order` as far as that takes.

    Objects and lists lose their last items, lists that are `oldest_first` their first, texts their end. What is left
    when all of these are empty may still be longer: the bare shape is never broken.
    """
    value = dict(value)
    for field in order:
        while value[field] and (excess := cost(value) - max_tokens) > 0:
            value[field] = _less(value[field], excess, oldest_first=oldest_first)
    return dumps(value)


def _less(value: Any, excess: int, *, oldest_first: bool) -> Any:
    if isinstance(value, str):
        return clip_end(value, max(0, count_tokens(value) - excess))
    if isinstance(value, dict):
        return dict(list(value.items())[:-1])
    return value[1:] if oldest_first else value[:-1]
