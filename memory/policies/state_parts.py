"""The parts of a structured state: each is declared once, and read, merged, cut and edited in the same way. Pure.

A part holds one text, a list of texts, or texts by name (a value may be a list of texts, too). Models do not always
keep to a schema: what they put in its place is converted if that makes sense, and else skipped. Every text becomes one
line without invisible characters, within its cap. The work is bounded for any input.

People read and edit a memory of any policy as fields of a form (`EditField`), without markup for the model.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from chatmemory.text.cleaning import without_invisible
from chatmemory.text.tokens import clip_end, count_tokens

Value: TypeAlias = "str | list[str]"
Held: TypeAlias = "str | list[str] | dict[str, Value]"
"""The content of a part: a text, a list or pairs."""
Content: TypeAlias = "Mapping[str, Held]"
"""The contents of parts, by their names."""
Shape = Literal["text", "list", "table"]

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


class BadEdit(Exception):
    """The text entered is invalid. The message is a sentence for the person who entered it, and quotes none of it.

    `part` is the name of the field at fault; "" if it is all of them together.
    """

    def __init__(self, message: str, part: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.part = part


class Entry(NamedTuple):
    """A text of a field with its name, which is "" if it has none."""

    name: str
    text: str

    @property
    def line(self) -> str:
        return f"{self.name}: {self.text}" if self.name else self.text


@dataclass(frozen=True, slots=True)
class EditField:
    """A part of a memory as people read and edit it: one text, one item per line, or one `name: value` per line."""

    name: str
    title: str
    text: str
    help: str = ""
    shape: Shape = "text"

    @property
    def entries(self) -> list[Entry]:
        if self.shape == "text":
            return [Entry("", self.text)]
        lines = (line for _, line in lines_of(self.text))
        sides = (line.partition(":") if self.shape == "table" else ("", "", line) for line in lines)
        return [Entry(name.replace("_", " ").strip(), text.strip()) for name, _, text in sides]


def plain_text(fields: Sequence[EditField]) -> str:
    """Join all fields as one text; a single text is returned without its title."""
    if len(fields) == 1 and fields[0].shape == "text":
        return fields[0].text
    texts = (
        field.text if field.shape == "text" else "\n".join(f"- {entry.line}" for entry in field.entries)
        for field in fields
    )
    return "\n\n".join(f"{field.title}\n{text}" for field, text in zip(fields, texts, strict=True))


def clean(text: str) -> str:
    """Return `text` as it is stored: with normalized line breaks and without invisible characters."""
    return without_invisible(text.replace("\r\n", "\n").replace("\r", "\n")).strip()


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, each with its number from 1, with single spaces."""
    for number, line in enumerate(clean(text).split("\n"), 1):
        if flat := " ".join(line.split()):
            yield number, flat


def require_within(text: str, cap: int, what: str, part: str = "") -> None:
    """Raise `BadEdit` if `text` has more than `cap` tokens. `what` begins the sentence."""
    tokens = count_tokens(text)
    if tokens > cap:
        raise BadEdit(f"{what} has {tokens:,} tokens; the limit is {cap:,}.", part)


@dataclass(frozen=True, slots=True)
class StatePart:
    """The declaration of a part."""

    name: str
    """Its name in answers and in stored states."""
    title: str
    shape: Shape = "list"
    max_tokens: int = TEXT_TOKENS
    """The limit of its text, or of each item or value."""
    max_items: int = MAX_ITEMS
    """Beyond them, the oldest go."""
    floor: int = 0
    """Items that stay when room is made (`trimmed`)."""
    has_links: bool = False
    """Whether its items are links: one that is too long is left out, because cut it would lead nowhere."""

    def read(self, value: object) -> Held:
        """The content in `value`, which is from an answer or a stored state."""
        if self.shape == "text":
            return one_line(as_text(value), self.max_tokens)
        return self._gathered(self._pairs(value) if self.shape == "table" else self._items(value))

    def merged(self, old: Held, new: Held) -> Held:
        """Add `new` to `old`: items without duplicates; of two values of a name, or of two texts, the new one.

        A known name or item keeps its place and its spelling. A value that is a list is added to as well, because what
        is extracted later does not include the earlier parts.
        """
        return new if isinstance(new, str) else self._gathered([*_named(old), *_named(new)])

    def costs(self, held: Held) -> list[int]:
        """Tokens of each item in JSON, rather too many than too few, without items that stay; oldest first."""
        items = [{name: value} if self.shape == "table" else name for name, value in _named(held)]
        droppable = items[: max(0, len(items) - self.floor)]
        return [count_tokens(json.dumps(one, ensure_ascii=False, indent=2)) + ITEM_OVERHEAD for one in droppable]

    def field(self, held: Held) -> EditField:
        if isinstance(held, str):
            note = f"At most {self.max_tokens:,} tokens."
            return EditField(self.name, self.title, held, note)
        note = "One per line, as name: value" if self.shape == "table" else "One per line"
        note += f", at most {self.max_items}." if self.max_items < MAX_ITEMS else "."
        is_table = self.shape == "table"
        lines = (f"{name}: {as_text(value)}" if is_table else name for name, value in _named(held))
        return EditField(self.name, self.title, "\n".join(lines), note, shape=self.shape)

    def parsed(self, text: str, before: Held) -> Held:
        """The content that was entered in the form field. Lines that were not edited stay as they are. Raise
        `BadEdit`."""
        if clean(text) == self.field(before).text:
            return before
        if self.shape == "text":
            line = " ".join(line for _, line in lines_of(text))
            require_within(line, self.max_tokens, "It", self.name)
            return line
        pairs: dict[str, Value] = {}
        known = dict(zip(self.field(before).text.split("\n"), _named(before), strict=False))
        for number, line in lines_of(text):
            name, value = known.get(line) or self._parsed_line(line, number)
            if self.shape == "table" and name.casefold() in map(str.casefold, pairs):
                raise BadEdit(f"Line {number} repeats the name of another line.", self.name)
            pairs[name] = value
        if len(pairs) > self.max_items:
            raise BadEdit(f"There are {len(pairs)} lines; the limit is {self.max_items}.", self.name)
        return pairs if self.shape == "table" else list(pairs)

    def _parsed_line(self, line: str, number: int) -> tuple[str, str]:
        if self.shape == "table":
            name, _, value = (side.strip() for side in line.partition(":"))
            if not name or not value:
                raise BadEdit(f"Line {number} is not a name, a colon and a value.", self.name)
            require_within(name, KEY_TOKENS, f"The name in line {number}", self.name)
            require_within(value, self.max_tokens, f"The value in line {number}", self.name)
            return name, value
        require_within(line, self.max_tokens, f"Line {number}", self.name)
        return line, ""

    def _pairs(self, value: object) -> Iterator[tuple[str, Value]]:
        for raw_name, raw in islice(raw_pairs(value), MAX_ITEMS):
            name = one_line(raw_name, KEY_TOKENS)
            read: Value = one_line(as_text(raw), self.max_tokens)
            if isinstance(raw, list | dict):
                read = [one_line(as_text(part), PART_TOKENS) for part in items_of(raw, MAX_PARTS)]
                read = [part for part in read if part]
            if read:
                yield name, read

    def _items(self, value: object) -> Iterator[tuple[str, Value]]:
        for item in items_of(value, MAX_ITEMS):
            text = as_text(item)[:READ_CHARS]
            if not self.has_links or count_tokens(text) <= self.max_tokens:
                yield one_line(text, self.max_tokens), ""

    def _gathered(self, pairs: Iterable[tuple[str, Value]]) -> Held:
        """Each name or item once, as first written, with its last value."""
        spelling: dict[str, str] = {}
        values: dict[str, Value] = {}
        for written, value in pairs:
            name = spelling.setdefault(self._key(written), written)
            before = values.get(name)
            if isinstance(before, list) and isinstance(value, list):
                value = cast("list[str]", StatePart("", "", max_items=MAX_PARTS).merged(before, value))
            values[name] = value
        values.pop("", None)
        kept = list(values.items())[-self.max_items :]
        return dict(kept) if self.shape == "table" else [name for name, _ in kept]

    def _key(self, name: str) -> str:
        """The form in which names and items are compared."""
        if self.has_links:
            return name
        return name.casefold() if self.shape == "table" else name.casefold().rstrip(STOPS)


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
        costs = {part: part.costs(content.get(part.name, [])) for part in drop_order}
        held = [part for part in drop_order if costs[part]]
        if not held:
            break
        part = next((one for one in held if sum(costs[one]) > share), held[0])
        spare = min(excess, max(0, sum(costs[part]) - share))
        left = _named(content[part.name])[enough(costs[part], spare) :]
        content = {**content, part.name: dict(left) if part.shape == "table" else [name for name, _ in left]}
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


def items_of(value: object, number: int) -> list[object]:
    """The first items of a list; of a mapping, each of its pairs; any other value is the only item."""
    if isinstance(value, dict):
        return [{name: item} for name, item in islice(value.items(), number)]
    return value[:number] if isinstance(value, list) else [value]


def raw_pairs(value: object) -> Iterator[tuple[str, object]]:
    """Yield pairs of a mapping, or of a list of `{"key", "value"}`."""
    if isinstance(value, dict):
        yield from value.items()
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict) and isinstance(item.get("key"), str):
            yield item["key"], item.get("value")


def as_text(value: object, depth: int = 0) -> str:
    """Convert `value` to text: names with a colon, parts joined by commas. `None` and deeper levels become ""."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
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


def _named(held: Held) -> list[tuple[str, Value]]:
    """The pairs of a part; its items with an empty value; nothing of a text, which has no items."""
    if isinstance(held, dict):
        return list(held.items())
    return [(item, "") for item in held] if isinstance(held, list) else []
