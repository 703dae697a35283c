"""Chats with facts in them, and questions about those facts, for measuring recall. Pure, the same in every run.

A question is made by rule from the words of its fact's slot, never from its value. In that form, all facts of a slot
have the same question; the second form also names another fact from the same place in the chat, as people do.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

from benchmarks.recall.languages import LANGUAGES, Language

NEAR = 4
"""Messages within which another fact counts as from the same place."""
SMALL_TALK = 160
"""Exchanges of small talk among which the facts of a language are placed."""


class Message(NamedTuple):
    """One message, and when it was said if that is known."""

    role: Literal["user", "assistant"]
    text: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the messages that answer it.

    `evidence`: by the message's number (from 0), the text that must be shown, in any of its forms. Forms are in lower
    case.
    """

    question: str
    evidence: Mapping[int, tuple[str, ...]]
    kind: str = ""
    """What the set calls questions of this kind; "" if it has no name for them."""

    @property
    def values(self) -> tuple[str, ...]:
        """All texts that answer the question."""
        return tuple(dict.fromkeys(chain.from_iterable(self.evidence.values())))


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat's messages, and its questions by their form."""

    name: str
    messages: tuple[Message, ...]
    asked: Mapping[str, tuple[Asked, ...]]
    starts: tuple[int, ...] = ()
    """The number of the first message of each session, if the set has sessions."""


def recorded(file: Path) -> list[Chat]:
    """Read the chats of a file of samples."""
    chats = json.loads(file.read_text(encoding="utf-8"))["chats"]
    return [_recorded(chat) for chat in chats]


def own() -> list[Chat]:
    """Return a chat in each of our languages."""
    return [_own(language) for language in LANGUAGES]


def _recorded(chat: Mapping[str, Any]) -> Chat:
    messages = tuple(Message(message["role"], message["text"]) for message in chat["messages"])
    facts = chat["facts"]
    alone = tuple(_asked(f"What was the {_words(fact['slot'])}?", fact) for fact in facts)
    beside = tuple(
        _asked(f"What was the {_words(fact['slot'])} for {other['surface'][0]}?", fact)
        for fact in facts
        if (other := _beside(fact, facts))
    )
    return Chat(chat["id"], messages, {"slot": alone, "slot and another fact": beside})


def _asked(question: str, fact: Mapping[str, Any]) -> Asked:
    return Asked(question, dict.fromkeys(fact["messages"], _forms(fact)))


def _forms(fact: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(form.lower() for form in (fact["canonical"], *fact["surface"])))


def _words(slot: str) -> str:
    return re.sub(r"[_-]+", " ", slot).lower()


def _beside(fact: Mapping[str, Any], facts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the nearest fact that has another slot and another value; ties go to the one said less often."""
    there = [
        (distance, len(other["messages"]), at)
        for at, other in enumerate(facts)
        if other["slot"] != fact["slot"] and not set(_forms(other)) & set(_forms(fact))
        if (distance := min(abs(a - b) for a in fact["messages"] for b in other["messages"])) <= NEAR
    ]
    return facts[min(there)[2]] if there else None


def _own(language: Language) -> Chat:
    chance = random.Random(language.name)
    places = sorted(chance.sample(range(SMALL_TALK), len(language.facts)))
    said = list(_small_talk(language))
    asked: list[Asked] = []
    for number, (place, (told, question, value)) in enumerate(zip(places, language.facts, strict=True)):
        said.insert(place + number, (told, language.noted))
        asked.append(Asked(question, {2 * (place + number): (value.lower(),)}))
    messages = tuple(one for user, reply in said for one in (Message("user", user), Message("assistant", reply)))
    return Chat(language.name, messages, {"question": tuple(asked)})


def _small_talk(language: Language) -> Iterator[tuple[str, str]]:
    for number in range(SMALL_TALK):
        user, reply = language.talk[number % len(language.talk)]
        yield user.format(n=number + 20), reply.format(n=number + 20)
