"""Recorded conversations, split in two: a part to import, and the last questions, which are really asked. Pure.

They are read from the folder named in `SAMPLES`, and never copied into the repository.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LONG = "tau_airline_xl.json"
"""4 chats of about 25,000 tokens and 260 turns."""
WITH_TOOLS = "tau_airline_ship_sample10.json"
"""10 chats of 3,000 to 5,000 tokens of conversation, with tool calls in between."""
ASKED = 5


@dataclass(frozen=True)
class Recorded:
    """One conversation: the part before its last user messages, and those messages."""

    name: str
    before: list[dict[str, Any]]
    questions: list[str]

    @property
    def document(self) -> str:
        """The part to import, as a file's content."""
        return json.dumps({"chats": [{"id": self.name, "messages": self.before}]})


def folder() -> Path | None:
    """Return the folder of recorded conversations; None if `SAMPLES` is not set."""
    named = os.environ.get("SAMPLES", "")
    return Path(named) if named else None


def read(path: Path, asked: int = ASKED) -> list[Recorded]:
    """Return every conversation of a file, split before its last `asked` user messages with text."""
    chats = json.loads(path.read_text(encoding="utf-8"))["chats"]
    return [_cut(chat["id"], chat["messages"], asked) for chat in chats]


def _cut(name: str, messages: list[dict[str, Any]], asked: int) -> Recorded:
    said = [at for at, one in enumerate(messages) if one["role"] == "user" and one["text"].strip()]
    questions = [messages[at]["text"] for at in said[-asked:]]
    return Recorded(name, messages[: said[-asked]], questions)
