"""Parses JSON bodies whose number of values is bounded, whatever their length.

A parser holds the interpreter for the whole text, so that nobody else is served meanwhile, and each value takes up to
twenty times its bytes in memory. What is counted here is counted slice by slice, so that others are served.
"""

import json
import re
from typing import Any, Final

from pydantic_core import from_json
from rest_framework.utils.json import strict_constant

MAX_VALUES: Final = 300_000
"""Lists, objects and their members. A history of 50,000 messages has 250,000."""
LARGE_BYTES: Final = 4 * 1024 * 1024
"""Above this size, a body is not parsed by the standard library, which needs the text of the whole besides."""
_SLICE: Final = 256 * 1024
_STRUCTURE: Final = (b"[", b"{", b",", b":")
_MAX_ESCAPES: Final = 200_000
"""In a large text with a lone surrogate, because each is looked at."""
_ESCAPE: Final = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
"""A backslash, a pair of surrogates, a lone one."""


class TooManyValuesError(ValueError):
    """A body with more than `MAX_VALUES` values."""


def parse(body: bytes) -> Any:
    """Return the value of a JSON text. Raises `ValueError`.

    A lone surrogate stays as it is, for the fields to judge; in a large body, it becomes U+FFFD.
    """
    if len(body) > MAX_VALUES and _has_too_many(body):
        raise TooManyValuesError(f"the body has more than {MAX_VALUES:,} values")
    try:
        return from_json(body, allow_inf_nan=False, cache_strings="keys")
    except ValueError:
        if b"\\ud" not in body and b"\\uD" not in body:
            raise
    if len(body) > LARGE_BYTES:
        if body.count(b"\\\\") + body.count(b"\\u") > _MAX_ESCAPES:
            raise ValueError("a large text with lone surrogates and many escapes")
        return from_json(_without_lone_surrogates(body), allow_inf_nan=False, cache_strings="keys")
    try:
        return json.loads(body, parse_constant=strict_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _has_too_many(body: bytes) -> bool:
    """Whether the text has too many values: a quick count of all its bytes first, then one outside of its strings."""
    starts = range(0, len(body), _SLICE)
    if sum(body.count(mark, at, at + _SLICE) for at in starts for mark in _STRUCTURE) <= MAX_VALUES:
        return False
    count, is_in_string, rest = 0, False, b""
    for at in starts:
        # Without escapes, each quotation mark begins or ends a string. An escape may be cut at the end of a slice.
        piece = rest + body[at : at + _SLICE]
        cut = (len(piece) - len(piece.rstrip(b"\\"))) % 2
        rest = piece[len(piece) - cut :]
        piece = piece[: len(piece) - cut].replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        outside = b"".join(parts[1::2] if is_in_string else parts[::2])
        count += sum(outside.count(mark) for mark in _STRUCTURE)
        if count > MAX_VALUES:
            return True
        is_in_string ^= len(parts) % 2 == 0
    return False


def _without_lone_surrogates(body: bytes) -> bytearray:
    """Replace them in place: pieces of a body full of escapes would take many times its size."""
    made = bytearray(body)
    for match in _ESCAPE.finditer(body):
        if len(match[0]) == 6:
            made[match.start() + 2 : match.end()] = b"fffd"
    return made
