"""Excerpts of earlier turns: how they are rendered, and what one costs.

`memory.recall.ranking` decides which passages are quoted. A quoted line that looks like one of our markers, including
the mark of an excerpt, is escaped by quoting it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import NamedTuple
from uuid import UUID

from chatmemory.text.markers import RECALL_HEADING, quote_markers
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_tokens

LEFT_OUT = "[…]"
"""Marks where text of a message is left out."""
DAY = 8
"""Tokens of the line with the date, which excerpts of one day share."""
MARK = 2
"""Tokens of the speaker's label."""
MORE = 2
"""Tokens of the marks around a piece of a message."""


@dataclass(frozen=True, slots=True)
class RecalledMessage:
    """A message that is quoted, with its current text."""

    id: UUID
    seq: int
    is_user: bool
    on: str
    """The day it was sent."""
    text: str
    tokens: int
    is_output: bool = False
    """Whether it is the output of a tool."""

    @property
    def speaker(self) -> str:
        """The name of the speaker in a prompt."""
        return "User" if self.is_user else "Tool" if self.is_output else "Assistant"


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The quotes of one message that would be shown, and about how many tokens they cost by themselves."""

    quotes: tuple[Quote, ...]
    tokens: int
    on: str = ""
    """The day the message was sent."""

    @property
    def seq(self) -> int:
        """The message's seq."""
        return self.quotes[0].seq


def excerpt_of(quotes: Sequence[Quote], said: Mapping[int, RecalledMessage]) -> Excerpt:
    """Make an excerpt of `quotes` of one message. Whole messages cost their stored count; only pieces are counted."""
    there = said.get(quotes[0].seq)
    tokens = sum(_cost(quote, there) for quote in quotes) if there else 0
    return Excerpt(tuple(quotes), tokens + DAY + MARK if tokens else 0, there.on if there else "")


def _cost(quote: Quote, said: RecalledMessage) -> int:
    if quote.end is None:
        return said.tokens + said.text[-1:].isalnum()  # else it shares a token with the newline
    return count_tokens(said.text[quote.start : quote.end]) + MORE


def render_excerpts(recalled: Sequence[Sequence[Quote]], said: Mapping[int, RecalledMessage]) -> str:
    """Render the message with the excerpts; "" if there is nothing to show."""
    blocks = [block for quotes in recalled if (block := excerpt_text(quotes, said))]
    return "\n\n".join([RECALL_HEADING, *blocks]) if blocks else ""


def excerpt_text(quotes: Sequence[Quote], said: Mapping[int, RecalledMessage]) -> str:
    """Render messages of one day: the date, then each message with its speaker.

    "" if nothing of them is left.
    """
    groups = [
        (seq, list(group)) for seq, group in groupby(quotes, key=lambda quote: quote.seq) if seq in said
    ]
    shown = [(said[seq], text) for seq, group in groups if (text := _quoted(said[seq].text, group))]
    if not shown:
        return ""
    return "\n".join([f"[{shown[0][0].on}]", *(f"{one.speaker}: {text}" for one, text in shown)])


def _quoted(text: str, quotes: Sequence[Quote]) -> str:
    if all(quote.end is None for quote in quotes):
        return quote_markers(text)
    pieces = [text[quote.start : quote.end].strip() for quote in quotes]
    before = [LEFT_OUT] if quotes[0].start else []
    last = quotes[-1].end
    after = [LEFT_OUT] if last is not None and last < len(text) else []
    between = [piece for at, piece in enumerate(pieces) for piece in ([LEFT_OUT, piece] if at else [piece])]
    return quote_markers(" ".join([*before, *between, *after]))


@cache
def excerpts_head_cost() -> int:
    """Tokens of the message around the excerpts."""
    return count_tokens(RECALL_HEADING) + 1 + MESSAGE_OVERHEAD


class Quote(NamedTuple):
    """The part of a message that an excerpt shows: characters `start` to `end`, or to its end if `end` is None."""

    seq: int
    start: int = 0
    end: int | None = None
