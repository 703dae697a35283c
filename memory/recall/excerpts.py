"""Excerpts of earlier turns: how the part of memory that holds them reads, and what one costs.

Which passages are quoted is decided in `memory.recall.ranking`. What is quoted is material: a line in it that looks
like a marker of ours, the mark of an excerpt included, is quoted as such.
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
"""Stands where a message goes on."""
DAY = 8
"""What the line with the day costs, which excerpts of one day share."""
MARK = 2
"""What it costs to tell who says it."""
MORE = 2
"""What the signs around a piece of a message cost."""
UPDATED_LATER = " (updated later)"
UPDATED = 5
"""What the mark of what a later message updates costs."""


@dataclass(frozen=True, slots=True)
class RecalledMessage:
    """A message that is quoted, as it stands."""

    id: UUID
    seq: int
    is_user: bool
    on: str
    """The day it was said."""
    text: str
    tokens: int
    is_output: bool = False
    """What a tool gave back."""

    @property
    def speaker(self) -> str:
        """Who said it, as a model is told."""
        return "User" if self.is_user else "Tool" if self.is_output else "Assistant"


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What would be shown of one message, and about what it costs by itself."""

    quotes: tuple[Quote, ...]
    tokens: int
    on: str = ""
    """The day it was said."""

    @property
    def seq(self) -> int:
        """Of the message."""
        return self.quotes[0].seq


def excerpt_of(quotes: Sequence[Quote], said: Mapping[int, RecalledMessage]) -> Excerpt:
    """`quotes` of one message, with their cost by stored counts; only pieces of messages are counted here."""
    there = said.get(quotes[0].seq)
    tokens = sum(_cost(quote, there) for quote in quotes) if there else 0
    around = DAY + MARK + (UPDATED if _is_updated(quotes) else 0)
    return Excerpt(tuple(quotes), tokens + around if tokens else 0, there.on if there else "")


def _is_updated(quotes: Sequence[Quote]) -> bool:
    return any(quote.updated_in for quote in quotes)


def _cost(quote: Quote, said: RecalledMessage) -> int:
    if quote.end is None:
        return said.tokens + said.text[-1:].isalnum()  # else its last sign takes the end of the line with it
    return count_tokens(said.text[quote.start : quote.end]) + MORE


def render_excerpts(recalled: Sequence[Sequence[Quote]], said: Mapping[int, RecalledMessage]) -> str:
    """The message that carries the excerpts, or "" if there is nothing to show."""
    blocks = [block for quotes in recalled if (block := excerpt_text(quotes, said))]
    return "\n\n".join([RECALL_HEADING, *blocks]) if blocks else ""


def excerpt_text(quotes: Sequence[Quote], said: Mapping[int, RecalledMessage]) -> str:
    """Messages of one day as they are shown: when they were said, then each with its speaker.

    "" where nothing of them is left.
    """
    groups = [
        (seq, list(group)) for seq, group in groupby(quotes, key=lambda quote: quote.seq) if seq in said
    ]
    shown = [(said[seq], group, text) for seq, group in groups if (text := _quoted(said[seq].text, group))]
    if not shown:
        return ""
    sides = (
        f"{one.speaker}{UPDATED_LATER if _is_updated(group) else ''}: {text}" for one, group, text in shown
    )
    return "\n".join([f"[{shown[0][0].on}]", *sides])


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
    """What of a message is shown as an excerpt: its characters from `start` to `end`, all where `end` is None."""

    seq: int
    start: int = 0
    end: int | None = None
    updated_in: int | None = None
    """The message that says it anew with another value, if one is known."""
