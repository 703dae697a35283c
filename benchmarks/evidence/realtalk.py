"""REALTALK's chats: two people write to each other over weeks. Pure; the files are not ours.

One file per chat, read like LoCoMo's (`benchmarks.recall.public`): the first speaker is the user, the second the
assistant. Evidence is the messages that a question names, each whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from benchmarks.recall.public import asked_of
from benchmarks.recall.sets import Chat, Message

KINDS = {1: "several places", 2: "temporal", 3: "open"}


def realtalk(folder: Path, numbers: Container[int]) -> Iterator[Chat]:
    """Yield the chats of `folder` with these numbers, which are part of their names."""
    files = {int(file.name.split("_")[1]): file for file in folder.glob("Chat_*.json")}
    for number in sorted(files):
        if number in numbers:
            yield _chat(files[number].stem, json.loads(files[number].read_text(encoding="utf-8")))


def _chat(name: str, chat: Mapping[str, Any]) -> Chat:
    messages: list[Message] = []
    places: dict[str, int] = {}
    starts: list[int] = []
    for number in sorted(int(key.split("_")[1]) for key in chat if re.fullmatch(r"session_\d+", key)):
        starts.append(len(messages))
        for one in chat[f"session_{number}"]:
            places[one["dia_id"]] = len(messages)
            text = f"{one['speaker']}: {one['clean_text']}"
            if caption := one.get("blip_caption"):
                text += f" [shares {caption}]"
            is_user = one["speaker"] == chat["name"]["speaker_1"]
            role: Literal["user", "assistant"] = "user" if is_user else "assistant"
            at = datetime.strptime(one["date_time"], "%d.%m.%Y, %H:%M:%S").replace(tzinfo=UTC)
            messages.append(Message(role, text, at))
    asked = [asked_of(question, places, messages, KINDS) for question in chat["qa"]]
    return Chat(name, tuple(messages), {"question": tuple(one for one in asked if one.evidence)}, tuple(starts))
