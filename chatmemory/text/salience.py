"""What in a text must not get lost: the spans worth keeping, whether a summary kept them, a turn as one line.

Pure and cheap, because a line is made on every reply. It does not judge what a text means and asks no model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chatmemory.text.entities import CJK, CUTS, LONGEST_WORD, POSSESSIVE, scan
from chatmemory.text.tokens import clip_end, count_tokens

LIST_CAP = 200
"""How many spans `retained` names on each side; its share counts them all."""

LINE_CHARS = 8000
"""A line is made from this much of each side, so that it costs the same after a giant message."""

LONGEST_KEY = 8
"""Words of a span that are compared."""

CHARS_PER_TOKEN = 8
"""More characters than a token of ordinary text has; saves counting what cannot fit."""

SHORT_SPAN = 2
"""A span of so few characters says little by itself; a line takes it last."""

_KEY = re.compile(r"\w+(?:[.,:/@+'’-]\w+)*")
_PART = re.compile(r"[^\W_]+")
_GROUPING = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")
_HEADING = re.compile(r"#{1,3}\s+\S|\*\*.+\*\*|\d+\.\s+\S|\s*[-*]\s+\S")


@dataclass(frozen=True, slots=True)
class Retained:
    """Which salient spans of a source are still in its summary. Both lists hold at most `LIST_CAP`."""

    kept: list[str]
    lost: list[str]
    share: float
    """Kept spans of all spans, 0 to 1; 1.0 when the source has none."""
    through_seq: int | None = None
    """The last message that was looked at, where those after it were not for want of time."""


def spans(text: str) -> list[str]:
    """The salient spans of `text` in order of appearance, each once (case aside)."""
    return [span for span, _ in scan(text)]


def retained(source: str, summary: str) -> Retained:
    """Which salient spans of `source` stand in `summary`: as whole words, in sequence, case aside."""
    wanted = [(span, _key(span)) for span in spans(source)]
    have = _index(summary, {len(key) for _, key in wanted})
    kept = [span for span, key in wanted if key in have]
    lost = [span for span, key in wanted if key not in have]
    return Retained(kept[:LIST_CAP], lost[:LIST_CAP], len(kept) / len(wanted) if wanted else 1.0)


class Holding:
    """What a text holds, to be asked for many spans: as whole words, in sequence, case aside.

    `sought`: the only spans that will be asked for, where they are known; else any.
    """

    def __init__(self, text: str, sought: Iterable[str] | None = None) -> None:
        lengths = set(range(LONGEST_KEY + 1)) if sought is None else {len(_key(span)) for span in sought}
        self._have = _index(text, lengths)

    def __contains__(self, span: str) -> bool:
        return _key(span) in self._have


def make_line(user: str, assistant: str, max_tokens: int = 40, cut_off: bool = False) -> str:
    """A turn as one line of at most `max_tokens` tokens; "" for a turn without text.

    The whole turn if it fits; else its salient spans, numbers and ids first, then how the user began. A reply
    that was `cut_off` is marked as such. Markers are not quoted here.
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
    """Up to five headings or bullets of a reply, 50 characters each, joined by ` | ` (seed 002,
    generateOutline).

    Where there are none, its first short lines stand in; at most 400 characters.
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
    """What two ways of writing a thing have in common: case, possessives and thousands separators aside."""
    plain = POSSESSIVE.sub("", _GROUPING.sub("", CJK.sub(" ", text.casefold())))
    words: list[str] = []
    for word in _KEY.findall(plain):
        words += [word] if len(word) <= LONGEST_WORD else CUTS.split(word)
    return tuple(words)


def _index(text: str, lengths: set[int]) -> set[tuple[str, ...]]:
    """All runs of the given lengths of the words of `text`, and the parts of words that hold letters."""
    words = _words(text)
    runs = {words[at : at + length] for length in lengths for at in range(len(words) - length + 1)}
    # "HAT062/HAT039" holds both ids, but "2024-05-12" holds no 12.
    parts = (_PART.findall(word) for word in words if not word.isalnum())
    return runs | {(part,) for found in parts for part in found if not part.isdigit()}


def _flat(text: str) -> str:
    return " ".join(_CONTROL.sub(" ", text).split())


def _gist(user: str, assistant: str, max_tokens: int) -> str:
    """Salient spans of both sides in about two thirds of `max_tokens`, then how the user began."""
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
    """Spans of both sides, each once: numbers and ids, then names, then tiny ones; the user's first in
    each.
    """
    both = {span.casefold(): (span, hard) for span, hard in (*scan(user), *scan(assistant))}
    yield from (span for span, hard in both.values() if hard and len(span) > SHORT_SPAN)
    yield from (span for span, hard in both.values() if not hard and len(span) > SHORT_SPAN)
    yield from (span for span, _ in both.values() if len(span) <= SHORT_SPAN)


CUT_OFF = "[cut off]"
"""Stands after a reply that was cut off or cancelled, wherever the turn is shown to a model."""
