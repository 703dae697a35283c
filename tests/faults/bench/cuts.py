"""A good answer of 40 events, and what may be made of its first bytes. Pure.

Its text holds what is awkward to cut: a surrogate pair over two events, a NUL, and more than one byte a character.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from chatmemory.llm.openai.stream_parser import Style
from chatmemory.text.cleaning import clean
from tests.support.fakes.behaviours import Behaviour
from tests.support.fakes.speech import End, Speech

EVENTS = 40
HOWS = ("eof", "close", "reset")
AWKWARD = ("\ud83d", "\ude00 ", "nul\0 ", "zwölf ", "語")
AROUND = {"responses": 6, "chat": 4}
"""Events besides the deltas: what opens and closes an answer."""


@dataclass(frozen=True)
class Answer:
    """A whole answer as bytes, and where in it which text and its terminal marker are whole."""

    body: bytes
    texts: tuple[str, ...]
    """The text after so many deltas, as far as it was said, cleaned."""
    ends: tuple[int, ...]
    """The offset behind each delta's event."""
    borders: tuple[int, ...]
    """The offset behind every event."""
    marker: int
    """The offset behind the event with the terminal marker."""

    def text_by(self, offset: int) -> str:
        """The text of the events that are whole in the first `offset` bytes."""
        return self.texts[bisect_right(self.ends, offset)]

    def ending_by(self, offset: int) -> str:
        """The status of a reply of which so many bytes arrived."""
        if offset >= self.marker:
            return "complete"
        return "incomplete" if self.text_by(offset) else "failed"

    def cut(self, offset: int, how: str) -> Behaviour:
        """Send so many bytes of it, and end in that way."""
        return Behaviour("raw", text=self.body.decode("latin-1"), after=offset, how=how)

    def held(self, deltas: int) -> Behaviour:
        """Send it as far as so many deltas, then wait at the gate, then the rest."""
        offset = (*self.borders[:1], *self.ends)[deltas]
        return Behaviour("raw", text=self.body.decode("latin-1"), after=-1, hold_after=offset)

    def certain(self, deltas: int) -> str:
        """What a reader can have of so many deltas: half a pair waits for its other half."""
        return self.texts[deltas].removesuffix("\ufffd")

    def offsets(self, stride: int, extra: int = 0) -> list[int]:
        """Every `stride`-th byte, each border between events with its neighbours, and so many at random."""
        around = (border + near for border in self.borders for near in (-1, 0, 1))
        chance = Random(4).sample(range(len(self.body)), extra)
        every = range(0, len(self.body) + 1, stride)
        return sorted({offset for offset in (*every, *around, *chance) if offset <= len(self.body)})


def answer(style: Style) -> Answer:
    """An answer of `EVENTS` events, the last `[DONE]` of chat style among them."""
    words = [f"word{number} " for number in range(EVENTS - AROUND[style] - len(AWKWARD))]
    pieces = [*words[:20], *AWKWARD, *words[20:]]
    speech = Speech(style, "gpt-fake", "resp_1", {"input": 11, "cached": 4, "output": 7})
    opening, deltas = speech.opening(), [speech.delta(piece) for piece in pieces]
    closing = speech.closing(clean("".join(pieces)), End())
    events = [*opening, *deltas, *closing]
    assert len(events) == EVENTS
    borders = tuple(accumulate(map(len, events)))
    first, last = len(opening), len(opening) + len(deltas)
    # The marker: `finish_reason` is the first event after the deltas, `response.completed` the last of all.
    marker = borders[last if style == "chat" else -1]
    return Answer(b"".join(events), _texts(pieces), borders[first:last], borders, marker)


def _texts(pieces: Sequence[str]) -> tuple[str, ...]:
    return tuple(clean("".join(pieces[:count])) for count in range(len(pieces) + 1))
