"""Important data as they come: from an answer in JSON or a stored state, whatever shape either is in.

What has another type than the kind wants is taken for what it can mean; what can mean nothing is left out. Every text
becomes one short line without characters that nobody sees. Reading is bounded, whatever is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from chatmemory.text.cleaning import without_invisible
from chatmemory.text.tokens import clip_end, count_tokens
from memory.policies.progressive.important_data import (
    LISTS,
    MOST_ITEMS,
    MOST_PARTS,
    PAIRS,
    STOPS,
    ImportantData,
    Value,
    same_in,
    unique,
)

KEY_TOKENS, TEXT_TOKENS, PART_TOKENS = 20, 60, 20
"""The longest key, text, and part of a list."""
LINK_TOKENS = 100
"""A longer link is left out: cut, it would lead nowhere."""
LONGEST_READ = 2000
"""Characters of a text that are looked at."""
DEEPEST = 4
"""Levels of a nested value that are read."""


def read(value: object) -> ImportantData:
    """The data in `value`, whatever it is: what has another type than the seed's is taken for what it can mean."""
    kinds = value if isinstance(value, dict) else {}
    pairs = {kind: dict(_pairs(kinds.get(kind))) for kind in PAIRS}
    lists = {kind: unique(_items(kind, kinds.get(kind)), same_in(kind)) for kind in LISTS}
    return ImportantData(pairs, lists)


def _pairs(value: object) -> Iterator[tuple[str, Value]]:
    """Keys with their values; of keys that differ in case alone the first spelling, and the last value."""
    spelling: dict[str, str] = {}
    for raw_key, raw in islice(_raw_pairs(value), MOST_ITEMS):
        key, read_value = _line(raw_key, KEY_TOKENS), _value(raw)
        if key and read_value:
            yield spelling.setdefault(key.casefold(), key), read_value


def _raw_pairs(value: object) -> Iterator[tuple[str, object]]:
    """A mapping, a list of `{"key", "value"}`, or texts such as "theme: dark"; a text alone is a key that holds."""
    if isinstance(value, dict):
        yield from value.items()
        return
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict) and isinstance(item.get("key"), str):
            yield item["key"], item.get("value")
        elif isinstance(item, dict):
            yield from item.items()
        else:
            key, found, rest = _flat(item).partition(": ")
            yield key, rest if found else "true"


def _value(raw: object) -> Value:
    if isinstance(raw, dict):
        raw = [{key: part} for key, part in islice(raw.items(), MOST_PARTS)]
    if isinstance(raw, list):
        parts = (_line(_flat(part), PART_TOKENS) for part in raw[:MOST_PARTS])
        return [part for part in parts if part]
    return _line(_flat(raw), TEXT_TOKENS)


def _items(kind: str, value: object) -> Iterator[str]:
    return _links(value) if kind == "source_urls" else _texts(value)


def _texts(value: object) -> Iterator[str]:
    """The items of a list as texts. What is no list is taken for its only item, a mapping for one item a key."""
    if isinstance(value, dict):
        value = [{key: item} for key, item in islice(value.items(), MOST_ITEMS)]
    for item in islice(value if isinstance(value, list) else [value], MOST_ITEMS):
        if text := _line(_flat(item), TEXT_TOKENS):
            yield text


def _links(value: object) -> Iterator[str]:
    """The links in the items of a list; an item that is a single word is taken for one."""
    for item in islice(value if isinstance(value, list) else [value], MOST_ITEMS):
        words = without_invisible(_flat(item)[:LONGEST_READ]).split()
        links = [word for word in words if "://" in word] or words[: len(words) == 1]
        for link in (word.strip("<>()[]\"'").rstrip(STOPS) for word in links):
            if link and count_tokens(link) <= LINK_TOKENS:
                yield link


def _flat(value: object, depth: int = 0) -> str:
    """`value` as text: nested keys with a colon, parts after each other. `None` and what is too deep say nothing."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if depth == DEEPEST or value is None:
        return ""
    parts: Iterable[str] = ()
    if isinstance(value, dict):
        parts = (f"{key}: {_flat(part, depth + 1)}" for key, part in islice(value.items(), MOST_PARTS))
    elif isinstance(value, list):
        parts = (_flat(part, depth + 1) for part in value[:MOST_PARTS])
    return ", ".join(part for part in parts if part)


def _line(text: str, max_tokens: int) -> str:
    """`text` as one line without what no reader sees."""
    line = " ".join(without_invisible(text[:LONGEST_READ]).split())
    return line if len(line.encode()) <= max_tokens else clip_end(line, max_tokens).strip()
