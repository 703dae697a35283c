"""Salient spans: what a text must not lose, whether a summary kept it, and a turn as one line.

Pure and cheap, because a line is made on every reply. It does not judge the meaning of a text, and asks no model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chatmemory.text.entities import CJK, CUTS, LONGEST_WORD, POSSESSIVE, scan
from chatmemory.text.tokens import clip_end, count_tokens

LIST_CAP = 200
"""Maximum number of spans that `retained` lists on each side; its share counts them all."""

LINE_CHARS = 8000
"""Characters of each side that a line is made from, so that a giant message does not cost more."""

LONGEST_KEY = 8
"""Maximum number of a span's words that are compared."""

CHARS_PER_TOKEN = 8
"""More characters than a token of ordinary text has. Text above this ratio is not counted, because it cannot fit."""

SHORT_SPAN = 2
"""A span of at most so many characters says little by itself, so a line takes it last."""

_KEY = re.compile(r"\w+(?:[.,:/@+'’-]\w+)*")
_PART = re.compile(r"[^\W_]+")
_GROUPING = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")
_HEADING = re.compile(r"#{1,3}\s+\S|\*\*.+\*\*|\d+\.\s+\S|\s*[-*]\s+\S")


@dataclass(frozen=True, slots=True)
class Retained:
    """Which salient spans of a source are still in its summary. Both lists have at most `LIST_CAP`."""

    kept: list[str]
    lost: list[str]
    share: float
    """Kept spans divided by all spans, 0 to 1; 1.0 if the source has none."""
    through_seq: int | None = None
    """The last message that was examined, if time ran out before the later ones."""


def spans(text: str) -> list[str]:
    """The salient spans of `text` in order of appearance, distinct ignoring case."""
    return [span for span, _ in scan(text)]


def retained(source: str, summary: str) -> Retained:
    """Which salient spans of `source` are in `summary`: as whole words, in sequence, ignoring case."""
    wanted = [(span, _key(span)) for span in spans(source)]
    have = _index(summary, {len(key) for _, key in wanted})
    kept = [span for span, key in wanted if key in have]
    lost = [span for span, key in wanted if key not in have]
    return Retained(kept[:LIST_CAP], lost[:LIST_CAP], len(kept) / len(wanted) if wanted else 1.0)


class SpanIndex:
    """The words of a text, indexed to look up many spans: as whole words, in sequence, ignoring case.

    `sought`: the only spans that will be looked up, if they are known.
    """

    def __init__(self, text: str, sought: Iterable[str] | None = None) -> None:
        lengths = set(range(LONGEST_KEY + 1)) if sought is None else {len(_key(span)) for span in sought}
        self._have = _index(text, lengths)

    def __contains__(self, span: str) -> bool:
        return _key(span) in self._have


def make_line(user: str, assistant: str, max_tokens: int = 40, cut_off: bool = False) -> str:
    """A turn as one line of at most `max_tokens` tokens; empty for a turn without text.

    The whole turn if it fits; otherwise its salient spans, numbers and ids first, then the beginning of the user's
    message. A `cut_off` reply is marked as such. Markers are not quoted here.
    """
    user, assistant = _flat(user[:LINE_CHARS]), _flat(assistant[:LINE_CHARS])
    if cut_off and assistant:
        assistant = f"{assistant} {CUT_OFF}"
    whole = " / ".join(f"{who}: {said}" for who, said in (("User", user), ("Assistant", assistant)) if said)
    if len(whole) <= max_tokens * CHARS_PER_TOKEN and count_tokens(whole) <= max_tokens:
        return whole
    mark = f" {CUT_OFF}" if cut_off else ""
    gist = _gist(user, assistant, max_tokens - count_tokens(mark))
    return clip_end(gist + mark, max_tokens)


def outline(reply: str) -> str:
    """Up to five headings or bullets of a reply, 50 characters each, joined by ` | `, or else its first short lines.

    At most 400 characters (seed 002, generateOutline).
    """
    lines = [" ".join(_CONTROL.sub(" ", line).split()) for line in reply.splitlines()]
    points = [line for line in lines if _HEADING.match(line)][:5]
    return " | ".join(line[:50] for line in points or _short(lines))[:400]


def _short(lines: list[str]) -> list[str]:
    spoken = [line for line in lines if line]
    return [line for line in spoken if len(line) <= 80][:3] or spoken[:1]


def _key(span: str) -> tuple[str, ...]:
    return _words(span)[:LONGEST_KEY]


def _words(text: str) -> tuple[str, ...]:
    """The words of a text in normalized form: without case, possessives and thousands separators."""
    plain = POSSESSIVE.sub("", _GROUPING.sub("", CJK.sub(" ", text.casefold())))
    words: list[str] = []
    for word in _KEY.findall(plain):
        words += [word] if len(word) <= LONGEST_WORD else CUTS.split(word)
    return tuple(words)


def _index(text: str, lengths: set[int]) -> set[tuple[str, ...]]:
    """All runs of words of the given lengths in `text`, and the parts of words that have letters."""
    words = _words(text)
    runs = {words[at : at + length] for length in lengths for at in range(len(words) - length + 1)}
    # "HAT062/HAT039" contains both ids, but "2024-05-12" contains no 12.
    parts = (_PART.findall(word) for word in words if not word.isalnum())
    return runs | {(part,) for found in parts for part in found if not part.isdigit()}


def _flat(text: str) -> str:
    return " ".join(_CONTROL.sub(" ", text).split())


def _gist(user: str, assistant: str, max_tokens: int) -> str:
    """Salient spans of both sides in about two thirds of `max_tokens`, then the beginning of the user's message."""
    spans_room = max_tokens * 2 // 3
    chosen: list[str] = []
    for span in _by_weight(user, assistant):
        cost = count_tokens(f", {span}")
        if cost <= spans_room:
            chosen.append(span)
            spans_room -= cost
        if spans_room < 2:
            break
    start = ", ".join(chosen)
    room = max_tokens - count_tokens(f'{start} — "…"')
    said = user or assistant
    began = clip_end(said[: max(0, room) * CHARS_PER_TOKEN], room)
    more = "" if began == said else "…"
    return " — ".join(part for part in (start, began and f'"{began}{more}"') if part)


def _by_weight(user: str, assistant: str) -> Iterator[str]:
    """Yield the distinct spans of both sides: numbers and ids, then names, then tiny ones; the user's first in each."""
    both = {span.casefold(): (span, hard) for span, hard in (*scan(user), *scan(assistant))}
    yield from (span for span, hard in both.values() if hard and len(span) > SHORT_SPAN)
    yield from (span for span, hard in both.values() if not hard and len(span) > SHORT_SPAN)
    yield from (span for span, _ in both.values() if len(span) <= SHORT_SPAN)


CUT_OFF = "[cut off]"
"""Marks a reply that was cut off or cancelled, wherever its turn is shown to a model."""
