"""The parts of a structured state: each is declared once, and read, merged, cut and edited in the same way. Pure.

A part holds one text, a list of texts, or texts by name (a value may be a list of texts, too). Models do not always
keep to a schema: what they put in its place is converted if that makes sense, and else skipped. Every text becomes one
line without invisible characters, within its cap. The work is bounded for any input.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from chatmemory.text.cleaning import without_invisible
from chatmemory.text.tokens import clip_end, count_tokens
from memory.policies.edit_form import (
    FEW_ROWS,
    SOME_ROWS,
    BadEdit,
    EditField,
    Shape,
    lines_of,
    pair_in,
    require_within,
)

Value: TypeAlias = "str | list[str]"
Held: TypeAlias = "str | list[str] | dict[str, Value]"
"""What a part holds: a text, a list or pairs."""
Content: TypeAlias = "Mapping[str, Held]"
"""What parts hold, by their names."""

KEY_TOKENS, TEXT_TOKENS, PART_TOKENS = 20, 60, 20
"""Maximum tokens of a name, of an item or value, and of a part of a value that is a list."""
MAX_ITEMS, MAX_PARTS = 100, 20
READ_CHARS = 4000
"""Characters of a text that are read: more than any part has room for."""
MAX_DEPTH = 4
"""Levels of a nested value that are read."""
ITEM_OVERHEAD = 4
"""An upper bound of the tokens of an item's comma, line break and indent in JSON."""
STOPS = ".,;:!?"
"""Ignored at the end of an item when items are compared."""


@dataclass(frozen=True, slots=True)
class StatePart:
    """The declaration of a part."""

    name: str
    """Its name in answers and in stored states."""
    title: str
    shape: Shape = "list"
    max_tokens: int = TEXT_TOKENS
    """Of its text, or of each item or value. A link that is longer is left out: cut, it would lead nowhere."""
    max_items: int = MAX_ITEMS
    """Beyond them, the oldest go."""
    floor: int = 0
    """Items that stay when room is made (`trimmed`)."""
    has_links: bool = False
    """Whether its items are links."""

    def read(self, value: object) -> Held:
        """What `value` says, from an answer or a stored state."""
        if self.shape == "text":
            return one_line(as_text(value), self.max_tokens)
        if self.shape == "table":
            return self._joined({}, self._pairs(value))
        return self._unique(self._links(value) if self.has_links else self._texts(value))

    def merged(self, old: Held, new: Held) -> Held:
        """Add `new` to `old`: items without duplicates; of two values of a name, or of two texts, the new one.

        A known name or item keeps its place and its spelling. A value that is a list is added to as well, because what
        is extracted later does not include the earlier parts.
        """
        if isinstance(old, dict) and isinstance(new, dict):
            return self._joined(old, new.items())
        return self._unique([*old, *new]) if isinstance(old, list) else new

    def without_oldest(self, held: Held, number: int) -> Held:
        """Return `held` without its first `number` items."""
        if isinstance(held, dict):
            return dict(islice(held.items(), number, None))
        return held[number:]

    def costs(self, held: Held) -> list[int]:
        """Tokens of each item in JSON, rather too many than too few, without those that stay; oldest first."""
        if isinstance(held, str):
            return []
        items: list[object] = (
            [{name: value} for name, value in held.items()] if isinstance(held, dict) else [*held]
        )
        droppable = items[: max(0, len(items) - self.floor)]
        return [
            count_tokens(json.dumps(one, ensure_ascii=False, indent=2)) + ITEM_OVERHEAD for one in droppable
        ]

    def field(self, held: Held) -> EditField:
        """The form field for `held`."""
        if isinstance(held, str):
            note = f"At most {self.max_tokens:,} tokens."
            return EditField(self.name, self.title, held, note, FEW_ROWS)
        note = "One per line, as name: value." if self.shape == "table" else "One per line."
        if self.max_items < MAX_ITEMS:
            note = f"{note[:-1]}, at most {self.max_items}."
        text = "\n".join(self._lines(held))
        return EditField(self.name, self.title, text, note, SOME_ROWS, shape=self.shape)

    def parsed(self, text: str, before: Held) -> Held:
        """What the text of the form field says. A line that was not edited keeps its value of `before`.

        Raise `BadEdit`.
        """
        if self.shape == "text":
            line = " ".join(line for _, line in lines_of(text))
            require_within(line, self.max_tokens, "It", self.name)
            return line
        known = self._lines(before)
        pairs: dict[str, Value] = {}
        for number, line in lines_of(text):
            name, value = known[line] if line in known else self._item(line, number)
            if self.shape == "table" and name.casefold() in map(str.casefold, pairs):
                raise BadEdit(f"Line {number} repeats the name of another line.", self.name)
            pairs[name] = value
        if len(pairs) > self.max_items:
            raise BadEdit(f"There are {len(pairs)} lines; the limit is {self.max_items}.", self.name)
        return pairs if self.shape == "table" else list(pairs)

    def _lines(self, held: Held) -> dict[str, tuple[str, Value]]:
        """The lines of a form field, each with the name and value, or the item, that it shows."""
        if isinstance(held, dict):
            return {f"{name}: {as_text(value)}": (name, value) for name, value in held.items()}
        return {item: (item, "") for item in held}

    def _item(self, line: str, number: int) -> tuple[str, Value]:
        if self.shape == "table":
            name, value = pair_in(line, number, self.name)
            require_within(name, KEY_TOKENS, f"The name in line {number}", self.name)
            require_within(value, self.max_tokens, f"The value in line {number}", self.name)
            return name, value
        require_within(line, self.max_tokens, f"Line {number}", self.name)
        found = self.read([line])
        if len(found) != 1:
            raise BadEdit(f"Line {number} is not one link.", self.name)
        return next(iter(found)), ""

    def _pairs(self, value: object) -> Iterator[tuple[str, Value]]:
        for raw_name, raw in islice(raw_pairs(value), MAX_ITEMS):
            name, read = one_line(raw_name, KEY_TOKENS), self._value(raw)
            if name and read:
                yield name, read

    def _value(self, raw: object) -> Value:
        if isinstance(raw, list | dict):
            parts = (one_line(as_text(part), PART_TOKENS) for part in items_of(raw, MAX_PARTS))
            return [part for part in parts if part]
        return one_line(as_text(raw), self.max_tokens)

    def _texts(self, value: object) -> Iterator[str]:
        texts = (one_line(as_text(item), self.max_tokens) for item in items_of(value, MAX_ITEMS))
        return (text for text in texts if text)

    def _links(self, value: object) -> Iterator[str]:
        """Yield the links in the items of a list; an item that is a single word counts as a link."""
        for item in items_of(value, MAX_ITEMS):
            words = without_invisible(as_text(item)[:READ_CHARS]).split()
            links = [word for word in words if "://" in word] or words[: len(words) == 1]
            for link in (word.strip("<>()[]\"'").rstrip(STOPS) for word in links):
                if link and count_tokens(link) <= self.max_tokens:
                    yield link

    def _joined(self, old: Mapping[str, Value], new: Iterable[tuple[str, Value]]) -> dict[str, Value]:
        result = dict(old)
        spelling = {name.casefold(): name for name in old}
        for name, value in new:
            known = spelling.setdefault(name.casefold(), name)
            before = result.get(known)
            if isinstance(before, list) and isinstance(value, list):
                value = _first_of_each([*before, *value], _text_key)[-MAX_PARTS:]
            result[known] = value
        return dict(list(result.items())[-self.max_items :])

    def _unique(self, texts: Iterable[str]) -> list[str]:
        return _first_of_each(texts, _link_key if self.has_links else _text_key)[-self.max_items :]


def trimmed(
    content: Content,
    drop_order: Sequence[StatePart],
    max_tokens: int,
    rendered: Callable[[Content], str],
    share: int = 0,
) -> Content:
    """Drop items of `content` until it has at most `max_tokens` as `rendered`, or none is left to drop.

    The first part of `drop_order` that takes more than `share` tokens loses its oldest; if none does, the first
    that has any.
    """
    while (excess := count_tokens(rendered(content)) - max_tokens) > 0:
        costs = {part: part.costs(content.get(part.name, "")) for part in drop_order}
        held = [part for part in drop_order if costs[part]]
        if not held:
            break
        part = next((one for one in held if sum(costs[one]) > share), held[0])
        spare = min(excess, max(0, sum(costs[part]) - share))
        left = part.without_oldest(content[part.name], enough(costs[part], spare))
        content = {**content, part.name: left}
    return content


def enough(costs: Sequence[int], tokens: int) -> int:
    """How many of the first items cost at least `tokens` together: at least one."""
    number = 1
    while number < len(costs) and sum(costs[:number]) < tokens:
        number += 1
    return number


def one_line(text: str, max_tokens: int) -> str:
    """Return `text` as one line without invisible characters, cut to `max_tokens`."""
    line = " ".join(filter(None, map(without_invisible, text[:READ_CHARS].split())))
    return line if len(line.encode()) <= max_tokens else clip_end(line, max_tokens).strip()


def items_of(value: object, most: int) -> list[object]:
    """The items of a list; of a mapping, each of its pairs; any other value is the only item."""
    if isinstance(value, dict):
        return [{name: item} for name, item in islice(value.items(), most)]
    return value[:most] if isinstance(value, list) else [value]


def raw_pairs(value: object) -> Iterator[tuple[str, object]]:
    """Yield pairs of a mapping, of a list of `{"key", "value"}`, or of texts such as "theme: dark".

    A text without a value is a name whose value is "true".
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
            name, found, rest = as_text(item).partition(": ")
            yield name, rest if found else "true"


def as_text(value: object, depth: int = 0) -> str:
    """Convert `value` to text: names with a colon, parts joined by commas. `None` and deeper levels become ""."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    parts: Iterable[str] = ()
    if isinstance(value, dict) and depth < MAX_DEPTH:
        parts = (f"{name}: {as_text(part, depth + 1)}" for name, part in islice(value.items(), MAX_PARTS))
    elif isinstance(value, list) and depth < MAX_DEPTH:
        parts = (as_text(part, depth + 1) for part in value[:MAX_PARTS])
    return ", ".join(part for part in parts if part)


def object_schema(properties: Mapping[str, object]) -> dict[str, Any]:
    """The JSON Schema of an object with exactly `properties`."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _first_of_each(texts: Iterable[str], same: Callable[[str], str]) -> list[str]:
    """The texts in order without duplicates, each as first written."""
    first: dict[str, str] = {}
    for text in texts:
        first.setdefault(same(text), text)
    return list(first.values())


def _text_key(text: str) -> str:
    return text.casefold().rstrip(STOPS)


def _link_key(link: str) -> str:
    """The comparison key of a link: host names are case-insensitive, paths are not."""
    scheme, found, rest = link.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{found}{host}".casefold() + f"{slash}{path}".rstrip("/") if found else link
