"""Excerpts of earlier turns: how they are rendered, and what one costs.

`memory.recall.ranking` decides which passages are quoted. A quoted line that looks like one of our markers, including
the mark of an excerpt, is escaped by quoting it.
"""

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


class Quote(NamedTuple):
    """The part of a message that an excerpt shows: characters `start` to `end`, or to its end if `end` is None."""

    seq: int
    start: int = 0
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The quote of a message that would be shown, and about how many tokens it costs by itself."""

    quote: Quote
    tokens: int
    on: str = ""
    """The day the message was sent."""


def excerpt_of(quote: Quote, said: RecalledMessage) -> Excerpt:
    """Make an excerpt of a message. As a whole it costs its stored count; only pieces are counted."""
    if quote.end is None:
        tokens = said.tokens + said.text[-1:].isalnum()  # else it shares a token with the newline
    else:
        tokens = count_tokens(said.text[quote.start : quote.end]) + MORE
    return Excerpt(quote, tokens + DAY + MARK if tokens else 0, said.on)


def render_excerpts(recalled: Sequence[Sequence[Quote]], said: Mapping[int, RecalledMessage]) -> str:
    """Render the message with the excerpts; "" if there is nothing to show.

    Those of one day follow its date, each message with its speaker. Messages that no longer exist are left out.
    """
    blocks: list[str] = []
    for quotes in recalled:
        lines: list[str] = []
        for seq, group in groupby(quotes, key=lambda quote: quote.seq):
            if seq in said and (text := _quoted(said[seq].text, list(group))):
                lines += [] if lines else [f"[{said[seq].on}]"]
                lines.append(f"{said[seq].speaker}: {text}")
        blocks += ["\n".join(lines)] if lines else []
    return "\n\n".join([RECALL_HEADING, *blocks]) if blocks else ""


def _quoted(text: str, quotes: Sequence[Quote]) -> str:
    if all(quote.end is None for quote in quotes):
        return quote_markers(text)
    pieces = f" {LEFT_OUT} ".join([text[quote.start : quote.end].strip() for quote in quotes])
    last = quotes[-1].end
    before = [LEFT_OUT] if quotes[0].start else []
    after = [LEFT_OUT] if last is not None and last < len(text) else []
    return quote_markers(" ".join([*before, pieces, *after]))


@cache
def excerpts_head_cost() -> int:
    """Tokens of the message around the excerpts."""
    return count_tokens(RECALL_HEADING) + 1 + MESSAGE_OVERHEAD
