"""The text of a file → the JSON entries in it, each with its place.

This module knows JSON, JSON lines and lists, but not what an entry means. Text is cleaned here, once, for all
formats: NULs are removed, lone surrogates become U+FFFD.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass

from conversations.interchange.values import FormatError

MAX_DEPTH = 100
"""Maximum nesting. Deeper JSON is no conversation, and would cause a RecursionError later."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A JSON value that holds a conversation, or several."""

    value: object
    line: int | None = None
    """Number of its line in a file of JSON lines, from 1."""


def entries(text: str) -> Iterator[Entry]:
    """Yield a file's one JSON value, the items of its list, or its JSON lines. Raises `FormatError`."""
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise FormatError("the file is empty")
    try:
        whole = _parse(text)
    except FormatError:
        if not _is_lines(text):
            raise
        yield from _lines(text)
        return
    yield from (Entry(item) for item in (whole if isinstance(whole, list) else [whole]))


def _is_lines(text: str) -> bool:
    first, _, rest = text.strip().partition("\n")
    try:
        return bool(rest) and isinstance(_parse(first), dict)
    except FormatError:
        return False


def _lines(text: str) -> Iterator[Entry]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield Entry(_parse(line), number)
            except FormatError as exc:
                raise FormatError(f"line {number}: {exc}") from None


def _parse(text: str) -> object:
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except json.JSONDecodeError as exc:
        raise FormatError(f"not JSON: {exc.msg} at line {exc.lineno}, column {exc.colno}") from None
    except RecursionError:
        raise FormatError("nested too deeply") from None
    except FormatError:
        raise
    except ValueError:  # An integer of thousands of digits
        raise FormatError("a number is too large") from None
    return _clean(value, 0)


def _refuse(constant: str) -> object:
    raise FormatError(f"{constant} is not a JSON value")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise FormatError("a number is too large")
    return number


def _clean(value: object, depth: int) -> object:
    if depth > MAX_DEPTH:
        raise FormatError("nested too deeply")
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_clean(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): _clean(item, depth + 1) for key, item in value.items()}
    return value


def clean_text(text: str) -> str:
    """Return `text` as storage can hold it: without NULs, with surrogate pairs joined and lone surrogates as U+FFFD."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
