"""BEAM's chats with an assistant, of 130,000 or 600,000 tokens, and their questions. Pure; the files are not ours.

One folder per chat: `N/chat.json` and `N/probing_questions/probing_questions.json`. Evidence is the user's messages
among those that a question names as its sources: a short one must be there whole, a part is enough of a long one.
Summaries and orders of events are left out, because they need the whole chat, and so are questions without a source.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.evidence.matching import PART, Piece
from benchmarks.evidence.questions import Question, Sample
from benchmarks.recall.sets import Message

LEFT_OUT = ("summarization", "event_ordering")
_MARK = re.compile(r"\s*->->\s*[\d,.\s]*$")
"""A marker that the set's generator left at the end of a message."""


def beam(name: str, folder: Path, numbers: Sequence[int]) -> Iterator[Sample]:
    """Yield the chats of `folder` with these numbers; a missing one is skipped."""
    for number in numbers:
        chat = folder / str(number) / "chat.json"
        questions = folder / str(number) / "probing_questions" / "probing_questions.json"
        if chat.exists() and questions.exists():
            yield _sample(name, number, _read(chat), _read(questions))


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def _sample(
    name: str,
    number: int,
    batches: Sequence[Mapping[str, Any]],
    asked: Mapping[str, Sequence[Mapping[str, Any]]],
) -> Sample:
    rows = [row for batch in batches for turn in batch["turns"] for row in turn]
    messages = tuple(_messages(rows))
    places = {row["id"]: at for at, row in enumerate(rows)}
    questions = tuple(
        Question(kind, one["question"], pieces)
        for kind, several in asked.items()
        if kind not in LEFT_OUT
        for one in several
        if (pieces := _pieces(one.get("source_chat_ids"), places, messages))
    )
    return Sample(name, number, str(number), messages, questions)


def _messages(rows: Sequence[Mapping[str, Any]]) -> Iterator[Message]:
    at = None
    for row in rows:
        if anchor := row.get("time_anchor"):
            at = datetime.strptime(anchor, "%B-%d-%Y").replace(tzinfo=UTC)
        elif at is not None:
            at += timedelta(minutes=1)
        yield Message(row["role"], _MARK.sub("", row["content"]), at)


def _pieces(sources: Any, places: Mapping[int, int], messages: Sequence[Message]) -> tuple[Piece, ...]:
    found = sorted({places[one] for one in _numbers(sources) if one in places})
    return tuple(Piece((messages[at].text,), part=PART) for at in found if messages[at].role == "user")


def _numbers(sources: Any) -> Iterator[int]:
    if isinstance(sources, dict):
        sources = list(sources.values())
    if isinstance(sources, list):
        for one in sources:
            yield from _numbers(one)
    elif isinstance(sources, int):
        yield sources
