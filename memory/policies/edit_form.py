"""The form for editing memory by hand, under any policy: its fields, and the validation of their texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from chatmemory.text.cleaning import without_invisible
from chatmemory.text.tokens import count_tokens

MANY_ROWS, SOME_ROWS = 14, 4


@dataclass(frozen=True, slots=True)
class EditField:
    """One field of the form: its name, label, current text, and what it may contain."""

    name: str
    label: str
    text: str
    help: str = ""
    rows: int = SOME_ROWS
    """Height of the field, in lines."""
    most_tokens: int = 0
    """Maximum tokens of its text; 0 if its length is not limited by itself."""
    holds: Literal["text", "lines", "pairs"] = "text"
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


def require_at_most(count: int, most: int, part: str) -> None:
    """Raise `BadEdit` if there are more than `most` lines."""
    if count > most:
        raise BadEdit(f"There are {count} lines; the limit is {most}.", part)
