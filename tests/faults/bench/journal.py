"""What clients were told by the server, word for word and when. The database is compared with it afterwards.

Knows neither the server nor the database. A turn may be read several times, over several connections: the text from
one of them must be a prefix of the text from another.
"""

import time
from bisect import bisect_right
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.processes.prompts import codes

LASTING = ("id", "chat_id", "seq", "content", "status", "error", "token_count", "usage", "completed_at")
"""Fields of a final message that never change. (It may be superseded.)"""


@dataclass
class Turn:
    """A question under one idempotency key, with everything clients were told. Times are of `time.monotonic`."""

    user: str
    key: str
    text: str
    """The question, repeated if its answer is regenerated."""
    again: bool = False
    ids: tuple[str, str, str] = ("", "", "")
    """Ids of chat, question and reply, once they are acknowledged."""
    is_interrupted: bool = False
    """Whether the user left or cancelled it."""
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
        """Record that a connection of this turn ended early."""
        self._broken_at = time.monotonic()

    @property
    def last_grown_at(self) -> float:
        """When text of it last arrived."""
        return self._grown[-1][1] if self._grown else 0.0

    def lost_seconds(self) -> float:
        """Return how many seconds' worth of delivered text the final message lacks."""
        kept = len(self.final["content"]) if self.final else len(self.seen)
        if kept >= len(self.seen):
            return 0.0
        first_lost = bisect_right(self._grown, (kept, float("inf")))
        return self._grown[-1][1] - self._grown[first_lost][1]

    def to_json(self) -> dict[str, Any]:
        """Return what the checks need."""
        told = asdict(self)
        return {name: told[name] for name in ("user", "key", "text", "again", "ids", "final")}


class Journal:
    """All turns of all users, and the problems noticed immediately, for one case or one period of load."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.problems: list[str] = []
        self.refused: list[tuple[float, float, str]] = []
        """Requests that got a 5xx or no answer: when they were sent, when they failed, and how."""

    @property
    def acknowledged(self) -> int:
        """Number of turns that the server has acknowledged."""
        return sum(bool(turn.reply_id) for turn in self.turns)

    def created(self, turn: Turn, chat_id: str, question_id: str, reply_id: str) -> None:
        """Record the ids under which the server stored this turn."""
        ids = (chat_id, question_id, reply_id)
        if turn.reply_id and turn.ids != ids:
            self.problem(turn, f"its ids were {turn.ids} and are {ids}")
        turn.ids = ids

    def heard(self, turn: Turn, text: str) -> None:
        """Record that a connection has delivered `text` so far, from the reply's first character on."""
        longer, shorter = (text, turn.seen) if len(text) > len(turn.seen) else (turn.seen, text)
        if not longer.startswith(shorter):
            self.problem(turn, "two connections tell different texts")
        if len(text) > len(turn.seen):
            turn.seen = text
            turn._grown.append((len(text), time.monotonic()))

    def ended(self, turn: Turn, message: dict[str, Any], text: str | None = None) -> None:
        """Record a final event or a whole answer. `text` is what this connection streamed before it, if it did."""
        content, seen = message["content"], turn.seen
        if turn.final is not None and any(turn.final[name] != message[name] for name in LASTING):
            self.problem(turn, "two final messages differ")
        if message["status"] == "complete" and text is not None and text != content:
            self.problem(turn, "a complete reply is not what its deltas give")
        if not (content.startswith(seen) or (message["status"] != "complete" and seen.startswith(content))):
            self.problem(turn, "the final content is not what was delivered")
        if {code[:2] for code in codes(content)} - {code[:2] for code in codes(turn.text)}:
            self.problem(turn, "the reply has a code of somebody else")
        if turn.reply_id not in ("", message["id"]):
            self.problem(turn, "it ends with another message than it began with")
        if turn.final is None:
            turn.final = message
            turn.waited = time.monotonic() - turn._broken_at if turn._broken_at else 0.0

    def problem(self, turn: Turn, what: str) -> None:
        self.problems.append(f"turn {turn.key}: {what}")
