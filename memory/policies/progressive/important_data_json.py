"""Parse important data from an answer's JSON or a stored state, in any shape.

A value of another type than the kind requires is converted if it has a sensible meaning, and otherwise skipped. Every
text becomes one short line without invisible characters. The work is bounded for any input.
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
"""Maximum tokens of a key, a text, and a part of a list."""
LINK_TOKENS = 100
"""Maximum tokens of a link. A longer one is left out, because a cut link leads nowhere."""
LONGEST_READ = 2000
"""Characters of a text that are read."""
DEEPEST = 4
"""Levels of a nested value that are read."""


def read(value: object) -> ImportantData:
    """Parse the data in any `value`, converting values that do not have the seed's types."""
    kinds = value if isinstance(value, dict) else {}
    pairs = {kind: dict(_pairs(kinds.get(kind))) for kind in PAIRS}
    lists = {kind: unique(_items(kind, kinds.get(kind)), same_in(kind)) for kind in LISTS}
    return ImportantData(pairs, lists)


def _pairs(value: object) -> Iterator[tuple[str, Value]]:
    """Yield keys with their values. Keys that differ only in case get the first spelling; the last value wins."""
    spelling: dict[str, str] = {}
    for raw_key, raw in islice(_raw_pairs(value), MOST_ITEMS):
        key, read_value = _line(raw_key, KEY_TOKENS), _value(raw)
        if key and read_value:
            yield spelling.setdefault(key.casefold(), key), read_value


def _raw_pairs(value: object) -> Iterator[tuple[str, object]]:
    """Yield pairs of a mapping, of a list of `{"key", "value"}`, or of texts such as "theme: dark".

    A text without a value is a key whose value is "true".
    """
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
    """Yield the items of a list as texts. Any other value is the only item, but a mapping gives one item per key."""
    if isinstance(value, dict):
        value = [{key: item} for key, item in islice(value.items(), MOST_ITEMS)]
    for item in islice(value if isinstance(value, list) else [value], MOST_ITEMS):
        if text := _line(_flat(item), TEXT_TOKENS):
            yield text


def _links(value: object) -> Iterator[str]:
    """Yield the links in the items of a list; an item that is a single word counts as a link."""
    for item in islice(value if isinstance(value, list) else [value], MOST_ITEMS):
        words = without_invisible(_flat(item)[:LONGEST_READ]).split()
        links = [word for word in words if "://" in word] or words[: len(words) == 1]
        for link in (word.strip("<>()[]\"'").rstrip(STOPS) for word in links):
            if link and count_tokens(link) <= LINK_TOKENS:
                yield link


def _flat(value: object, depth: int = 0) -> str:
    """Convert `value` to text: nested keys with a colon, parts joined by commas. `None` and deeper levels become ""."""
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
    """Return `text` as one line without invisible characters, cut to `max_tokens`."""
    line = " ".join(without_invisible(text[:LONGEST_READ]).split())
    return line if len(line.encode()) <= max_tokens else clip_end(line, max_tokens).strip()
