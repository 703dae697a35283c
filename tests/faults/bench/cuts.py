"""A good answer of 40 events, and behaviours that send only its first bytes. Pure.

Its text has what is difficult to split: a surrogate pair over two events, a NUL, and characters of several bytes.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from chatmemory.llm.openai.reading import Style
from chatmemory.text.cleaning import clean
from tests.support.fakes.behaviours import Behaviour
from tests.support.fakes.speech import End, Speech

PIECES = [
    *(f"word{number} " for number in range(20)),
    *("\ud83d", "\ude00 ", "nul\0 ", "zwölf ", "語"),
    *(f"word{number} " for number in range(20, 29)),
]


@dataclass(frozen=True)
class Answer:
    """A whole answer as bytes, and the offsets at which its texts and its terminal marker are complete."""

    body: bytes
    texts: tuple[str, ...]
    """The cleaned text after each number of deltas."""
    ends: tuple[int, ...]
    """The offset after each delta's event."""
    borders: tuple[int, ...]
    """The offset after every event."""
    marker: int
    """The offset after the event with the terminal marker."""

    def text_by(self, offset: int) -> str:
        """Return the text of the events that are complete in the first `offset` bytes."""
        return self.texts[bisect_right(self.ends, offset)]

    def ending_by(self, offset: int) -> str:
        """Return the status of a reply of which the first `offset` bytes arrived."""
        if offset >= self.marker:
            return "complete"
        return "incomplete" if self.text_by(offset) else "failed"

    def cut(self, offset: int, how: str) -> Behaviour:
        """Send the first `offset` bytes, and end the connection as `how` says."""
        return Behaviour("raw", text=self.body.decode("latin-1"), after=offset, how=how)

    def held(self, deltas: int) -> Behaviour:
        """Send the events up to that number of deltas, wait at the gate, then send the rest."""
        offset = (*self.borders[:1], *self.ends)[deltas]
        return Behaviour("raw", text=self.body.decode("latin-1"), after=-1, hold_after=offset)

    def certain(self, deltas: int) -> str:
        """Return the text that readers surely have after that many deltas: half a surrogate pair is held back."""
        return self.texts[deltas].removesuffix("\ufffd")


def answer(style: Style, pieces: Sequence[str] = PIECES) -> Answer:
    """Make an answer whose deltas are these pieces."""
    speech = Speech(style, "gpt-fake", "resp_1", {"input": 11, "cached": 4, "output": 7})
    opening, deltas = speech.opening(), [speech.delta(piece) for piece in pieces]
    events = [*opening, *deltas, *speech.closing(clean("".join(pieces)), End())]
    borders = tuple(accumulate(map(len, events)))
    first, last = len(opening), len(opening) + len(deltas)
    # `finish_reason` is the first event after the deltas, `response.completed` the last of all.
    marker = borders[last if style == "chat" else -1]
    texts = tuple(clean("".join(pieces[:count])) for count in range(len(pieces) + 1))
    return Answer(b"".join(events), texts, borders[first:last], borders, marker)
