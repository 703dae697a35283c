"""The form for editing memory by hand, under any policy: its fields, and the validation of their texts.

The same fields, without markup for the model, are what people read of a memory (`readable`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from chatmemory.text.cleaning import without_invisible
from chatmemory.text.tokens import count_tokens

MANY_ROWS, SOME_ROWS, FEW_ROWS = 14, 4, 2

Shape = Literal["text", "list", "table"]


@dataclass(frozen=True, slots=True)
class EditField:
    """One field of the form: its name, label, current text, and what it may contain."""

    name: str
    label: str
    text: str
    help: str = ""
    rows: int = SOME_ROWS
    """Height of the field, in lines."""
    shape: Shape = "text"
    """The format: one text, one item per line, or one `name: value` per line."""


class BadEdit(Exception):
    """The text entered is invalid. The message is a sentence for the person who entered it, and quotes none of it.

    `part` is the name of the field at fault; "" if it is all of them together.
    """

    def __init__(self, message: str, part: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.part = part


def clean(text: str) -> str:
    """Return `text` as it is stored: with normalized line breaks and without invisible characters."""
    return without_invisible(text.replace("\r\n", "\n").replace("\r", "\n")).strip()


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, each with its number from 1, with single spaces."""
    for number, line in enumerate(clean(text).split("\n"), 1):
        if flat := " ".join(line.split()):
            yield number, flat


def pair_in(line: str, number: int, part: str) -> tuple[str, str]:
    """Split a line such as "theme: dark" into name and value. Raise `BadEdit`."""
    key, _, value = (side.strip() for side in line.partition(":"))
    if not key or not value:
        raise BadEdit(f"Line {number} is not a name, a colon and a value.", part)
    return key, value


def require_within(text: str, cap: int, what: str, part: str = "") -> None:
    """Raise `BadEdit` if `text` has more than `cap` tokens. `what` begins the sentence."""
    tokens = count_tokens(text)
    if tokens > cap:
        raise BadEdit(f"{what} has {tokens:,} tokens; the limit is {cap:,}.", part)


@dataclass(frozen=True, slots=True)
class ReadableEntry:
    """A text with its name; `name` is "" if it has none."""

    name: str
    text: str

    @property
    def line(self) -> str:
        return f"{self.name}: {self.text}" if self.name else self.text


@dataclass(frozen=True, slots=True)
class ReadablePart:
    """A heading and what is below it: one text, a list of texts, or a table of texts by name."""

    title: str
    shape: Shape
    entries: tuple[ReadableEntry, ...]


def readable(fields: Sequence[EditField]) -> list[ReadablePart]:
    """The parts of a memory that are not empty, from the fields of its form."""
    return [
        ReadablePart(field.label, field.shape, tuple(_entries(field)))
        for field in fields
        if field.text.strip()
    ]


def as_text(parts: Sequence[ReadablePart]) -> str:
    """Join all parts as one text; a single text is returned without its heading."""
    if len(parts) == 1 and parts[0].shape == "text":
        return parts[0].entries[0].text
    return "\n\n".join(f"{part.title}\n{_below(part)}" for part in parts)


def _below(part: ReadablePart) -> str:
    if part.shape == "text":
        return part.entries[0].text
    return "\n".join(f"- {entry.line}" for entry in part.entries)


def _entries(field: EditField) -> Iterator[ReadableEntry]:
    if field.shape == "text":
        yield ReadableEntry("", field.text)
        return
    for _, line in lines_of(field.text):
        name, _, text = line.partition(":") if field.shape == "table" else ("", "", line)
        yield ReadableEntry(name.replace("_", " ").strip(), text.strip())
