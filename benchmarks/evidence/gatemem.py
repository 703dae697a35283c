"""GateMem's chats: many people write into one memory, and ask it in mid-chat. Pure; not our files.

`episodes.jsonl` and `checkpoints.jsonl` of a folder for each domain. Each turn is a user's message that names its
speaker, and a short reply. Evidence is the strings that an answer must include and that were said before the question;
questions that must be refused are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.evidence.matching import Haystack, Piece
from benchmarks.evidence.questions import Question, Sample
from benchmarks.recall.sets import Message

REPLY = "Noted."


def gatemem(folder: Path, domains: Sequence[str]) -> Iterator[Sample]:
    """Yield an episode after the other of these domains."""
    asked: dict[str, list[dict[str, Any]]] = {}
    episodes: list[dict[str, Any]] = []
    for domain in domains:
        episodes += lines_of(folder / domain / "episodes.jsonl")
        for checkpoint in lines_of(folder / domain / "checkpoints.jsonl"):
            asked.setdefault(checkpoint["episode_id"], []).append(checkpoint)
    for number, episode in enumerate(episodes, start=1):
        messages, places = _messages(episode)
        questions = [_question(one, places, messages) for one in asked.get(episode["episode_id"], [])]
        with_evidence = sorted((one for one in questions if one.pieces), key=lambda one: one.at or 0)
        yield Sample("gatemem", number, episode["episode_id"], messages, tuple(with_evidence))


def lines_of(file: Path) -> list[dict[str, Any]]:
    """Return the values of a file with one as JSON on each line."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def _messages(episode: Mapping[str, Any]) -> tuple[tuple[Message, ...], dict[str, int]]:
    """Return the messages, and how many there are up to each turn, by its id."""
    names = {one["principal_id"]: one["display_name"] for one in episode["entities"]["principals"]}
    messages: list[Message] = []
    places: dict[str, int] = {}
    for turn in episode["turns"]:
        speaker = turn["speaker"]["principal_id"]
        said_at = turn.get("timestamp")
        at = datetime.fromisoformat(said_at).replace(tzinfo=UTC) if said_at else None
        messages.append(Message("user", f"{names.get(speaker, speaker)}: {turn['text']}", at))
        messages.append(Message("assistant", REPLY, at))
        places[turn["turn_id"]] = len(messages)
    return tuple(messages), places


def _question(one: Mapping[str, Any], places: Mapping[str, int], messages: tuple[Message, ...]) -> Question:
    at = places[one["as_of_turn_id"]]
    said = Haystack("\n".join(message.text for message in messages[:at]))
    answers = one["expected_action"] == "answer"
    pieces = (Piece((text,), is_value=True) for text in one["judge_spec"].get("include", []) if answers)
    return Question(one["query_type"], one["query_text"], tuple(filter(said.has, pieces)), at)
