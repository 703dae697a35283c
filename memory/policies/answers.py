"""What a summarizer is shown; and whether what it returned is an answer: not empty, cut off or an apology, and JSON
where that is asked for. Pure.

Models write JSON fenced, wrapped in prose, with trailing commas. Parsing takes time proportional to the answer's
length, for any answer.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from chatmemory.llm.protocol import Completion
from chatmemory.text.cleaning import without_invisible
from chatmemory.text.markers import quote_markers
from chatmemory.text.thoughts import bare, without_thoughts
from memory.history.turns import Turn, assistant_text
from memory.policies.protocol import Refusal

NO_SUMMARY = "NONE"
"""Replaces the existing summary if there is none (seed 000 section 5.2.4)."""


def summarizer_input(existing: str, turns: Sequence[Turn]) -> str:
    """The request to fold `turns` into `existing`, exactly in the seed's format. Turns without text are left out."""
    sides = ((("User", turn.user), ("Assistant", assistant_text(turn))) for turn in turns)
    texts = ("\n".join(f"{name}: {quote_markers(text)}" for name, text in pair if text) for pair in sides)
    new = "\n\n".join(f"Turn {number}:\n{text}" for number, text in enumerate(filter(None, texts), start=1))
    return (
        f"=== EXISTING_SUMMARY ===\n{quote_markers(existing) or NO_SUMMARY}\n=== END_EXISTING_SUMMARY ===\n\n"
        f"=== NEW_TURNS ===\n{new}\n=== END_NEW_TURNS ==="
    )


def days_of(turns: Sequence[Turn]) -> str:
    """Say on which days the turns were said, for the end of a summarizer's instructions; "" if that is not known."""
    days = groupby(turn.said_at.date() for turn in turns if turn.said_at and (turn.user or turn.assistant))
    listed = "; ".join(f"{len([*of_day])} on {day:%A}, {day}" for day, of_day in days)
    return f"\nDays of the new turns, in their order (UTC): {listed}.\n" if listed else ""


_REFUSED = re.compile(
    r"(?:i'?m sorry|i am sorry|sorry|i apologi[sz]e|as an ai\b[^.]{0,60})[,.:;—– -]*(?:but )?"
    r"(?:i |we )?(?:can(?:no|')?t|am unable|'m unable|won't|am not able|'m not able)\b"
    r"|i (?:can(?:no|')?t|am unable to|'m unable to) (?:help|assist|comply|summari[sz]e|do that|fulfil)",
    re.IGNORECASE,
)
_ERROR = re.compile(
    r"(?:internal server )?error\s*:|<!doctype html|<html\b|traceback \(most recent call last\)"
    r"|(?:http(?:/\d(?:\.\d)?)? ?)?(?:error )?[45]\d\d (?:bad gateway|bad request|internal server"
    r"|service unavailable|gateway time|too many requests|unauthorized|forbidden|not found)"
    r"|\{\s*\"error\"\s*:",
    re.IGNORECASE,
)


def prompt_hash(instructions: str) -> str:
    """The version of `instructions`: 16 hex digits of their SHA-256."""
    return hashlib.sha256(instructions.encode()).hexdigest()[:16]


def answer_text(completion: Completion) -> str:
    """Return the text of the answer, in any format, without thoughts, preface, fence and invisible characters.

    Raise `Refusal` if it is empty, truncated, refused, or the text of an error or a refusal.
    """
    text, unended = without_thoughts(without_invisible(completion.text))
    text = bare(text)
    if completion.refused or _REFUSED.match(text.replace("’", "'")):
        raise Refusal("refused")
    if completion.truncated or unended:
        raise Refusal("truncated")
    if not text:
        raise Refusal("empty")
    if _ERROR.match(text):
        raise Refusal("error_text")
    return text


MAX_CHARS = 400_000
"""Longest answer that is parsed, in characters: no policy keeps a hundredth of that."""
TRIES = 8
"""Number of broken objects that are mended, if they can be: prose has braces, too."""

_OPENING = re.compile(r'\{\s*+["}]')
# A string is matched as a whole, even one without an end, so that a comma in it stays.
_STRING_OR_COMMA = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|,(?=\s*+[}\]])', re.DOTALL)


def object_in(text: str) -> dict[str, Any]:
    """Return the last whole JSON object in `text`, which comes after drafts. Numbers are kept as text, so that 50.00
    stays 50.00; NaN becomes null. An empty object does not replace another one.

    Raise `Refusal("wrong_shape")` if there is none, or it is too long or too deeply nested.
    """
    text, _ = without_thoughts(text)
    if len(text) > MAX_CHARS:
        raise Refusal("wrong_shape")
    last: dict[str, Any] | None = None
    at = mended = 0
    while mended < TRIES and (opening := _OPENING.search(text, at)):
        start = opening.start()
        try:
            try:
                found, at = _DECODER.raw_decode(text, start)
            except json.JSONDecodeError as error:
                mended, at = mended + 1, max(start + 1, error.pos)
                without_commas = _STRING_OR_COMMA.sub(lambda one: one[0] if one[0] != "," else " ", text[start:])
                found, length = _DECODER.raw_decode(without_commas)
                at = start + length
        except json.JSONDecodeError as error:
            # Skip what was parsed of a broken object: an object within it is not the answer.
            at = max(at, start + error.pos)
            continue
        except RecursionError:
            break
        last = found or last or found
    if last is None:
        raise Refusal("wrong_shape")
    return last


# NaN and the infinities become null: they are not valid JSON, and no database accepts them.
_DECODER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=lambda _: None, strict=False)
