"""What clients were told by the server, word for word and when: what the database is held against afterwards.

Knows neither the server nor the database. A turn may be read several times, over several connections: what one of them
said must be the beginning of what another one said.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from dataclasses import asdict, dataclass, field
from typing import Any

LASTING = ("id", "chat_id", "seq", "content", "status", "error", "token_count", "usage", "completed_at")
"""What of a final message stays as it is. (It may be superseded.)"""


@dataclass
class Turn:
    """One thing that a user asked, under one key, and all that came of it. Times are of `time.monotonic`."""

    user: str
    key: str
    text: str
    """The question; the same again where its answer is asked for anew."""
    again: bool = False
    ids: tuple[str, str, str] = ("", "", "")
    """Chat, question and reply, from the moment that they were acknowledged."""
    is_interrupted: bool = False
    """The user has left it or cancelled it."""
    seen: str = ""
    """The longest text that any connection delivered."""
    final: dict[str, Any] | None = None
    waited: float = 0.0
    """Seconds from the last broken connection to the final event."""
    _grown: list[tuple[int, float]] = field(default_factory=list)
    _broken_at: float = 0.0

    @property
    def chat_id(self) -> str:
        return self.ids[0]

    @property
    def reply_id(self) -> str:
        return self.ids[2]

    def broke(self) -> None:
        """A connection of this turn ended before its time."""
        self._broken_at = time.monotonic()

    @property
    def last_grown_at(self) -> float:
        """When it was last delivered more of."""
        return self._grown[-1][1] if self._grown else 0.0

    def lost_seconds(self) -> float:
        """How long the text took to come that was delivered and is in the final message no more."""
        kept = len(self.final["content"]) if self.final else len(self.seen)
        if kept >= len(self.seen):
            return 0.0
        first_lost = bisect_right(self._grown, (kept, float("inf")))
        return self._grown[-1][1] - self._grown[first_lost][1]

    def to_json(self) -> dict[str, Any]:
        """What the checks need."""
        told = asdict(self)
        return {name: told[name] for name in ("user", "key", "text", "again", "ids", "final")}


class Journal:
    """All turns of all users, and what was wrong at first sight. For one case, or for one stretch of load."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.problems: list[str] = []
        self.refused: list[tuple[float, float, str]] = []
        """Requests that got a 5xx or no answer: when they were sent, when they failed, and how."""

    def add(self, turn: Turn) -> Turn:
        self.turns.append(turn)
        return turn

    @property
    def acknowledged(self) -> int:
        """Turns that the server has acknowledged."""
        return sum(bool(turn.reply_id) for turn in self.turns)

    def created(self, turn: Turn, chat_id: str, question_id: str, reply_id: str) -> None:
        """The server said what it stored this turn as."""
        ids = (chat_id, question_id, reply_id)
        if turn.reply_id and turn.ids != ids:
            self.problem(turn, f"its ids were {turn.ids} and are {ids}")
        turn.ids = ids

    def heard(self, turn: Turn, text: str) -> None:
        """A connection has delivered `text` so far, from the reply's first character on."""
        longer, shorter = (text, turn.seen) if len(text) > len(turn.seen) else (turn.seen, text)
        if not longer.startswith(shorter):
            self.problem(turn, "two connections tell different texts")
        if len(text) > len(turn.seen):
            turn.seen = text
            turn._grown.append((len(text), time.monotonic()))

    def ended(self, turn: Turn, message: dict[str, Any], text: str | None = None) -> None:
        """A final event, or the whole answer; `text` is what this connection delivered before it, if it streams."""
        content, seen = message["content"], turn.seen
        if turn.final is not None and any(turn.final[name] != message[name] for name in LASTING):
            self.problem(turn, "two final messages differ")
        if message["status"] == "complete" and text is not None and text != content:
            self.problem(turn, "a complete reply is not what its deltas give")
        if not (content.startswith(seen) or (message["status"] != "complete" and seen.startswith(content))):
            self.problem(turn, "the final content is not what was delivered")
        if turn.reply_id not in ("", message["id"]):
            self.problem(turn, "it ends with another message than it began with")
        if turn.final is None:
            turn.final = message
            turn.waited = time.monotonic() - turn._broken_at if turn._broken_at else 0.0

    def problem(self, turn: Turn, what: str) -> None:
        self.problems.append(f"turn {turn.key}: {what}")
