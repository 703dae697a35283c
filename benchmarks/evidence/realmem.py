"""RealMem's chats with an assistant: projects and other talk in turns, with requests in mid-chat. Pure; not our files.

One file per person, in the order of their names. Evidence of a request is what its reply used of earlier sessions: of
each point, the message of its session with most of the point's words; a part is enough of a long one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from benchmarks.evidence.matching import PART, Piece
from benchmarks.evidence.questions import Question, Sample
from benchmarks.recall.sets import Message


def realmem(folder: Path) -> Iterator[Sample]:
    """Yield the chat of each person in `folder`."""
    for number, file in enumerate(sorted(folder.glob("*_dialogues_*.json")), start=1):
        yield _sample(number, file.stem.split("_dialogues")[0], json.loads(file.read_text(encoding="utf-8")))


def _sample(number: int, name: str, person: Mapping[str, Any]) -> Sample:
    messages: list[Message] = []
    sessions: dict[str, list[str]] = {}
    questions: list[Question] = []
    for session in person["dialogues"]:
        began = datetime.strptime(session["current_time"].split(" ")[0], "%Y-%m-%d").replace(tzinfo=UTC)
        turns = session["dialogue_turns"]
        for place, (asked, reply) in enumerate(pairwise(turns)):
            if asked["is_query"] and (pieces := _pieces(reply.get("memory_used") or [], sessions)):
                questions.append(
                    Question(asked["category_name"], asked["content"], pieces, len(messages) + place)
                )
        for place, one in enumerate(turns):
            role: Literal["user", "assistant"] = "user" if one["speaker"] == "User" else "assistant"
            messages.append(Message(role, one["content"], began + timedelta(minutes=place)))
        sessions[session["session_uuid"]] = [one["content"] for one in turns]
    return Sample("realmem", number, name, tuple(messages), tuple(questions))


def _pieces(used: Sequence[Mapping[str, Any]], sessions: Mapping[str, Sequence[str]]) -> tuple[Piece, ...]:
    found = (_best(one["content"], sessions.get(one["session_uuid"], ())) for one in used)
    return tuple(Piece((text,), part=PART) for text in dict.fromkeys(found) if text)


def _best(point: str, said: Sequence[str]) -> str:
    """Return the message with most of the words of `point`, the first of several; "" if none has any."""
    from memory.recall.terms import terms

    wanted = set(terms(point))
    return max(said, key=lambda text: len(wanted & set(terms(text))), default="")
