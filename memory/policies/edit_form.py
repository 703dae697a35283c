"""The form for editing memory by hand, whatever the policy: fields with a text each, and what may be wrong in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from chatmemory.text.cleaning import without_invisible
from chatmemory.text.tokens import count_tokens

MANY_ROWS, SOME_ROWS = 14, 4


@dataclass(frozen=True, slots=True)
class EditField:
    """One field of the form: its name, what it is called, what it holds now, and what may stand in it."""

    name: str
    label: str
    text: str
    help: str = ""
    rows: int = SOME_ROWS
    """Lines that the field is high."""
    most_tokens: int = 0
    """Of what is in it; 0 where it is not its own length that counts."""
    holds: Literal["text", "lines", "pairs"] = "text"
    """One text, an item to a line, or a name, a colon and a value to a line."""


class BadEdit(Exception):
    """What was entered cannot be kept. The message is a sentence for whoever entered it, and quotes nothing.

    `part` is the name of the field where it stands; "" where it is all of them together.
    """

    def __init__(self, message: str, part: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.part = part


def clean(text: str) -> str:
    """`text` as it may be stored: line breaks as they are elsewhere, without what no reader sees."""
    return without_invisible(text.replace("\r\n", "\n").replace("\r", "\n")).strip()


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """The lines that say anything, each with its number from 1 and with single spaces."""
    for number, line in enumerate(clean(text).split("\n"), 1):
        if flat := " ".join(line.split()):
            yield number, flat


def pair_in(line: str, number: int, part: str) -> tuple[str, str]:
    """The name and the value of a line such as "theme: dark"."""
    key, _, value = (side.strip() for side in line.partition(":"))
    if not key or not value:
        raise BadEdit(f"Line {number} is not a name, a colon and a value.", part)
    return key, value


def require_within(text: str, cap: int, what: str, part: str = "") -> None:
    """Refuse `text` of more than `cap` tokens. `what` begins the sentence."""
    tokens = count_tokens(text)
    if tokens > cap:
        raise BadEdit(f"{what} has {tokens:,} tokens; the limit is {cap:,}.", part)


def require_few(count: int, most: int, part: str) -> None:
    """Refuse more than `most` lines."""
    if count > most:
        raise BadEdit(f"There are {count} lines; the limit is {most}.", part)
