"""A chat and its questions, as values."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from benchmarks.evidence.matching import Piece
from benchmarks.recall.sets import Message


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the evidence it needs."""

    kind: str
    text: str
    pieces: tuple[Piece, ...]
    at: int | None = None
    """How many messages were said before it; None: all of the chat."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A chat of a set, and its questions. Numbers begin with 1."""

    set: str
    number: int
    name: str
    messages: tuple[Message, ...]
    questions: tuple[Question, ...]
    starts: tuple[int, ...] = ()
    """The number of the first message of each session, if the set has sessions."""

    @property
    def is_odd(self) -> bool:
        """True in the half of the set that may be used to choose numbers; the other half is only measured."""
        return self.number % 2 == 1

    @property
    def key(self) -> str:
        """The set, the number and a hash of all messages."""
        said = json.dumps([[one.role, one.text, str(one.at)] for one in self.messages])
        return f"{self.set}/{self.number}/{hashlib.sha256(said.encode()).hexdigest()[:12]}"
