"""Public sets of long conversations, read as chats: LoCoMo and LongMemEval. Pure; the files are not in this repository.

LoCoMo: two people talk over months. The first speaker is the user, the second the assistant; each message begins with
its speaker's name and ends with the caption of the picture shared with it, as is usual in measurements on this set. The
evidence of a question is the messages it names, each whole. Questions without an answer (category 5) are left out.

LongMemEval: a user and an assistant with long replies, many sessions. Evidence is the marked messages: of each, the
passage with most of the answer's words, or all of it if no passage has any. If a session is named but none of its
messages is marked, as in files with several questions per haystack, the evidence is the same passage of the message
with most of the answer's words, provided it has at least half of them. Other questions without marks are left out, and
so are questions without an answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from benchmarks.recall.sets import Asked, Chat, Message

NO_ANSWER = 5
"""The category of LoCoMo's questions about things that were not said."""
KINDS = {1: "several places", 2: "temporal", 3: "open", 4: "one place"}
"""The other categories of LoCoMo's questions."""
_ID = re.compile(r"D(\d+):(\d+)")


def locomo(file: Path) -> list[Chat]:
    """Return the chats of LoCoMo's file."""
    return [_locomo(chat) for chat in json.loads(file.read_text(encoding="utf-8"))]


def longmemeval(file: Path) -> list[Chat]:
    """Return the haystacks of one of LongMemEval's files, each as a chat."""
    found = [_longmemeval(item) for item in json.loads(file.read_text(encoding="utf-8"))]
    return [chat for chat in found if chat.asked["question"]]


def _locomo(chat: Mapping[str, Any]) -> Chat:
    said = chat["conversation"]
    user = said["speaker_a"]
    messages: list[Message] = []
    places: dict[str, int] = {}
    for number in sorted(int(key.split("_")[1]) for key in said if re.fullmatch(r"session_\d+", key)):
        began = datetime.strptime(said[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y")
        for at, one in enumerate(said[f"session_{number}"]):
            places[one["dia_id"]] = len(messages)
            text = f"{one['speaker']}: {one['text']}"
            if caption := one.get("blip_caption"):
                text += f" [shares {caption}]"
            role: Literal["user", "assistant"] = "user" if one["speaker"] == user else "assistant"
            messages.append(Message(role, text, _minute(began, at)))
    asked = [asked_of(question, places, messages, KINDS) for question in chat["qa"]]
    return Chat(chat["sample_id"], tuple(messages), {"question": tuple(one for one in asked if one.evidence)})


def asked_of(
    question: Mapping[str, Any],
    places: Mapping[str, int],
    messages: Sequence[Message],
    kinds: Mapping[int, str],
) -> Asked:
    """Return a question with the messages it names as its evidence: none if it has no answer."""
    named = [] if question["category"] == NO_ANSWER else _ID.findall(" ".join(question["evidence"]))
    ids = [f"D{int(session)}:{int(place)}" for session, place in named]
    found = sorted({places[one] for one in ids if one in places})
    evidence = {at: (messages[at].text.lower(),) for at in found}
    return Asked(question["question"], evidence, kinds.get(question["category"], ""))


def _longmemeval(item: Mapping[str, Any]) -> Chat:
    days = [datetime.strptime(re.sub(r" \(\w+\)", "", day), "%Y/%m/%d %H:%M") for day in item["haystack_dates"]]
    sessions = sorted(
        zip(days, item["haystack_session_ids"], item["haystack_sessions"], strict=True),
        key=lambda session: session[0],
    )
    messages: list[Message] = []
    marked: dict[str, dict[int, bool]] = {}
    for began, name, session in sessions:
        for at, one in enumerate(session):
            marked.setdefault(name, {})[len(messages)] = bool(one.get("has_answer"))
            messages.append(Message(one["role"], one["content"], _minute(began, at)))
    asked = [
        Asked(question, evidence)
        for question, answer, ids in _questions(item)
        if (
            evidence := _evidence(answer, {at: is_one for name in ids for at, is_one in marked[name].items()}, messages)
        )
    ]
    return Chat(item["question_id"], tuple(messages), {"question": tuple(asked)})


def _questions(item: Mapping[str, Any]) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield each question of a haystack with its answer and its sessions; skip those without an answer."""
    if "questions" in item:
        yield from (
            (question, str(answer), ids)
            for question, answer, ids in zip(
                item["questions"], item["answers"], item["answer_session_ids"], strict=True
            )
        )
    elif not item["question_id"].endswith("_abs"):
        yield item["question"], str(item["answer"]), item["answer_session_ids"]


def _evidence(answer: str, there: Mapping[int, bool], messages: Sequence[Message]) -> dict[int, tuple[str, ...]]:
    """Return the answering passage of each message `there` (number → whether marked) that is evidence, by number."""
    from memory.recall.terms import terms

    wanted = set(terms(answer))
    if marked := [at for at, is_one in there.items() if is_one]:
        return {at: (_best_passage(messages[at].text, wanted).lower(),) for at in marked}
    words = {at: len(wanted & set(terms(messages[at].text))) for at in there}
    best = max(words, key=lambda at: (words[at], -at), default=None)
    if best is None or words[best] * 2 < len(wanted) or not words[best]:
        return {}
    return {best: (_best_passage(messages[best].text, wanted).lower(),)}


def _best_passage(text: str, wanted: set[str]) -> str:
    """Return the passage with most of these terms, or the whole text if it has none of them."""
    from memory.recall.terms import passages, terms

    pieces = [text[start:end].strip() for start, end in passages(text)]
    found = [len(wanted & set(terms(piece))) for piece in pieces]
    return pieces[found.index(max(found))] if any(found) else text


def _minute(began: datetime, number: int) -> datetime:
    return began.replace(tzinfo=UTC) + timedelta(minutes=number)
