"""RealMem's chats with an assistant: projects and other talk in turns, with requests in mid-chat. Pure; not our files.

One file per person, in the order of their names. Evidence of a request is what its reply used of earlier sessions: the
message that the set names as the source of each point; a part is enough of a long one. Some messages were edited after
the set was made, so of those the one by the same speaker with most of the source's words is taken.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from benchmarks.evidence.matching import PART, Piece
from benchmarks.evidence.questions import Question, Sample
from benchmarks.recall.sets import Message


def realmem(folder: Path, numbers: Container[int]) -> Iterator[Sample]:
    """Yield the chats of the people in `folder` with these numbers."""
    for number, file in enumerate(sorted(folder.glob("*_dialogues_*.json")), start=1):
        if number in numbers:
            yield _sample(number, file.stem.split("_dialogues")[0], json.loads(file.read_text("utf-8")))


def _sample(number: int, name: str, person: Mapping[str, Any]) -> Sample:
    messages: list[Message] = []
    sources: dict[tuple[str, str], str] = {}
    questions: list[Question] = []
    starts: list[int] = []
    for session in person["dialogues"]:
        began = datetime.strptime(session["current_time"].split(" ")[0], "%Y-%m-%d").replace(tzinfo=UTC)
        turns = session["dialogue_turns"]
        starts.append(len(messages))
        for place, (asked, reply) in enumerate(pairwise(turns)):
            if asked.get("is_query") and (pieces := _pieces(reply.get("memory_used") or [], sources)):
                questions.append(Question(asked["category_name"], asked["content"], pieces, len(messages) + place))
        for place, one in enumerate(turns):
            role: Literal["user", "assistant"] = "user" if one["speaker"] == "User" else "assistant"
            messages.append(Message(role, one["content"], began + timedelta(minutes=place)))
        for point in session["extracted_memory"]:
            sources[point["session_uuid"], point["content"]] = _source(point, turns)
    return Sample("realmem", number, name, tuple(messages), tuple(questions), tuple(starts))


def _pieces(used: Sequence[Mapping[str, Any]], sources: Mapping[tuple[str, str], str]) -> tuple[Piece, ...]:
    found = (sources.get((one["session_uuid"], one["content"])) for one in used)
    return tuple(Piece((text,), part=PART) for text in dict.fromkeys(found) if text)


def _source(point: Mapping[str, Any], turns: Sequence[Mapping[str, Any]]) -> str:
    """Return the message that the set names as the source of `point`; "" if it names none."""
    from memory.recall.terms import terms

    source = point.get("source_content_snapshot") or ""
    said = [one["content"] for one in turns if one["speaker"] == point.get("source_role_snapshot")]
    if source in said:
        return source
    wanted = set(terms(source))
    return max(said, key=lambda text: len(wanted & set(terms(text))), default="") if wanted else ""
