"""JSON within a limit of tokens: take items while they fit, and drop some again if the whole does not.

Joined text can have more tokens than its parts, so parts are counted only to plan, and the whole is counted to
decide.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from chatmemory.text.tokens import clip_end, count_tokens

Item = TypeVar("Item")


def dumps(value: object) -> str:
    """`value` as compact JSON, with non-ASCII characters unescaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def cost(value: object) -> int:
    """Tokens of `value` as JSON."""
    return count_tokens(dumps(value))


def take(items: Iterable[Item], room: int, most: int = 100) -> list[Item]:
    """Take at most `most` items, in order: each that fits in what those before it left of `room` tokens.

    Each item is counted by itself: nearly always, its outer quotes or braces make up for the comma.
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
    """`value` as JSON of at most `max_tokens`, after shortening its fields in `order` as far as needed.

    Objects and lists lose their last items, lists that are `oldest_first` their first, texts their end. If the JSON
    is still too long when all of these are empty, it is returned as it is: required fields are never dropped.
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
