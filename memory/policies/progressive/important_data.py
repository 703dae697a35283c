"""The important data of seed 001, in seven kinds: merged without duplicates, cut to their tokens, rendered as JSON.

Three kinds are pairs of a key and a value, four are lists. A value is a text or a list of texts, each on one line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from chatmemory.text.links import links_in
from chatmemory.text.tokens import count_tokens
from memory.policies.protocol import JSON

Value: TypeAlias = "str | list[str]"

PAIRS = ("user_preferences", "document_structure", "custom_fields")
LISTS = ("key_decisions", "important_facts", "source_urls", "entities")
KINDS = (
    "user_preferences",
    "key_decisions",
    "important_facts",
    "source_urls",
    "document_structure",
    "entities",
    "custom_fields",
)
"""The kinds in the seed's order, which is also the order in prompts."""

DROP_ORDER = (
    "custom_fields",
    "entities",
    "important_facts",
    "document_structure",
    "key_decisions",
    "source_urls",
    "user_preferences",
)
"""The kinds in the order in which items are dropped. Custom fields and bare names say the least by themselves. Facts
are in the summary, too. Decisions can seldom be inferred from anything else, links cannot be guessed, and the user
would have to be asked again for a lost preference."""

MOST_ITEMS, MOST_PARTS = 100, 20
"""Maximum number of items of one kind, and of a value that is a list."""

ITEM_OVERHEAD = 4
"""An upper bound of the tokens of an item's comma, line break and indent."""
STOPS = ".,;:!?"
"""Ignored at the end of an item when items are compared."""


@dataclass(frozen=True, slots=True)
class ImportantData:
    """The seven kinds, each in order of first appearance. Empty kinds may be missing."""

    pairs: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    lists: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def to_json(self) -> dict[str, JSON]:
        """All seven kinds, as they are stored."""
        return {kind: self._of(kind) for kind in KINDS}

    def key_order(self) -> dict[str, JSON]:
        """The order of the keys in each kind of pairs, which not every JSON store preserves."""
        return {kind: list(found) for kind, found in self.pairs.items() if found}

    def _of(self, kind: str) -> JSON:
        if kind in PAIRS:
            return {key: _json(value) for key, value in self.pairs.get(kind, {}).items()}
        return list(self.lists.get(kind, ()))


def merged(old: ImportantData, new: ImportantData) -> ImportantData:
    """Merge `new` into `old`: lists are appended without duplicates; if a key has two values, the new one is kept.

    A known key or item keeps its place and its spelling. A value that is a list is appended to as well, because what
    is extracted later does not include the earlier parts.
    """
    pairs = {kind: _with_pairs(old.pairs.get(kind, {}), new.pairs.get(kind, {})) for kind in PAIRS}
    lists = {
        kind: unique([*old.lists.get(kind, ()), *new.lists.get(kind, ())], same_in(kind)) for kind in LISTS
    }
    return ImportantData(pairs, lists)


def ordered(data: ImportantData, key_order: object) -> ImportantData:
    """Return `data` with its keys in the order of `key_order`, other keys last. Invalid parts of it are ignored."""
    told = key_order if isinstance(key_order, dict) else {}
    return ImportantData(
        {kind: _ordered(found, told.get(kind)) for kind, found in data.pairs.items()}, data.lists
    )


def without_empty_links(data: ImportantData, sources: Sequence[str]) -> ImportantData:
    """Return `data` without items of `source_urls` that are not links ("none") and do not occur in `sources` either."""
    named = data.lists.get("source_urls", ())
    real = [text for text in named if links_in(text) or any(text in source for source in sources)]
    return ImportantData(data.pairs, {**data.lists, "source_urls": real})


def rendered(data: ImportantData) -> str:
    """Render `data` as indented JSON without empty kinds; "" if all are empty.

    Each line opens or closes a bracket or begins with a quotation mark, so none can be mistaken for a marker.
    """
    kinds = {kind: found for kind, found in data.to_json().items() if found}
    return json.dumps(kinds, ensure_ascii=False, indent=2) if kinds else ""


def trimmed(data: ImportantData, max_tokens: int) -> ImportantData:
    """Drop items until `data` has at most `max_tokens` as rendered, the oldest of a kind first.

    The kind is the first of `DROP_ORDER` that takes more than its seventh, so that no kind crowds out the others.
    """
    while (excess := count_tokens(rendered(data)) - max_tokens) > 0:
        data = _lighter(data, excess, max_tokens // len(KINDS))
    return data


def _lighter(data: ImportantData, excess: int, share: int) -> ImportantData:
    """Drop at least one item, and about `excess` tokens at most."""
    costs = {kind: _costs(data, kind) for kind in DROP_ORDER}
    held = [kind for kind in DROP_ORDER if costs[kind]]
    kind = next((kind for kind in held if sum(costs[kind]) > share), held[0])
    spare = min(excess, max(0, sum(costs[kind]) - share))
    dropped = 1
    while sum(costs[kind][:dropped]) < spare:
        dropped += 1
    if kind in PAIRS:
        left = dict(islice(data.pairs[kind].items(), dropped, None))
        return ImportantData({**data.pairs, kind: left}, data.lists)
    return ImportantData(data.pairs, {**data.lists, kind: data.lists[kind][dropped:]})


def _costs(data: ImportantData, kind: str) -> list[int]:
    """Tokens of each item of the kind as rendered; overestimated, so that not too much is dropped at once."""
    items: Iterable[object] = (
        ({key: value} for key, value in data.pairs.get(kind, {}).items())
        if kind in PAIRS
        else data.lists.get(kind, ())
    )
    return [count_tokens(json.dumps(item, ensure_ascii=False, indent=2)) + ITEM_OVERHEAD for item in items]


def _with_pairs(old: Mapping[str, Value], new: Mapping[str, Value]) -> dict[str, Value]:
    result = dict(old)
    spelling = {key.casefold(): key for key in old}
    for key, value in new.items():
        known = spelling.setdefault(key.casefold(), key)
        before = result.get(known)
        if isinstance(before, list) and isinstance(value, list):
            value = unique([*before, *value], _text_key)[-MOST_PARTS:]
        result[known] = value
    return dict(list(result.items())[-MOST_ITEMS:])


def _ordered(pairs: Mapping[str, Value], keys: object) -> dict[str, Value]:
    told = [key for key in keys if isinstance(key, str) and key in pairs] if isinstance(keys, list) else []
    return {key: pairs[key] for key in dict.fromkeys([*told, *pairs])}


def unique(texts: Iterable[str], same: Callable[[str], str]) -> list[str]:
    """Return the texts in order without duplicates, each as first written; if there are too many, the newest."""
    first: dict[str, str] = {}
    for text in texts:
        first.setdefault(same(text), text)
    return list(first.values())[-MOST_ITEMS:]


def same_in(kind: str) -> Callable[[str], str]:
    """The key function by which two items of the kind are compared."""
    return _link_key if kind == "source_urls" else _text_key


def _text_key(text: str) -> str:
    return text.casefold().rstrip(STOPS)


def _link_key(link: str) -> str:
    """The comparison key of a link: host names are case-insensitive, paths are not."""
    scheme, found, rest = link.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{found}{host}".casefold() + f"{slash}{path}".rstrip("/") if found else link


def _each(value: Value, change: Callable[[str], str]) -> Value:
    return [change(part) for part in value] if isinstance(value, list) else change(value)


def _json(value: Value) -> JSON:
    return list(value) if isinstance(value, list) else value
