"""The JSON object in a summarizer's answer, as models write it: fenced, wrapped in prose, with trailing commas.

Reading takes time in proportion to the answer, whatever it is. What the object means is its policy's business.
"""

from __future__ import annotations

import json
import re
from typing import Any

from memory.policies.protocol import Refusal

MAX_CHARS = 400_000
"""A longer answer is none: no policy keeps a hundredth of that."""
TRIES = 8
"""Places at which an object is looked for: prose has braces, too."""

_OPENING = re.compile(r'\{\s*+["}]')
# A string is taken whole, one without an end too, so that a comma in it stays.
_STRING_OR_COMMA = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|,(?=\s*+[}\]])', re.DOTALL)


def object_in(text: str) -> dict[str, Any]:
    """The first JSON object in `text`. Numbers come as their text, so that 50.00 stays 50.00; NaN is null.

    Raises `Refusal("wrong_shape")` if there is none, or it is too long or too deep.
    """
    if len(text) > MAX_CHARS:
        raise Refusal("wrong_shape")
    at = 0
    for _ in range(TRIES):
        opening = _OPENING.search(text, at)
        if opening is None:
            break
        found, read = _read(text[opening.start() :])
        if found is not None:
            return found
        # What was read of a broken object is not looked at again: an object within it is not the answer.
        at = opening.start() + max(1, read)
    raise Refusal("wrong_shape")


def _read(text: str) -> tuple[dict[str, Any] | None, int]:
    """The object that `text` begins with, or None and how far it could be read."""
    read = 0
    for attempt in (text, _STRING_OR_COMMA.sub(_without_comma, text)):
        try:
            return _DECODER.raw_decode(attempt)[0], 0
        except json.JSONDecodeError as error:
            read = max(read, error.pos)
        except RecursionError:
            return None, len(text)
    return None, read


def _without_comma(found: re.Match[str]) -> str:
    return "" if found.group() == "," else found.group()


def _nothing(_: str) -> None:
    """NaN and the infinities are no JSON, and no database takes them."""


_DECODER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=_nothing, strict=False)
