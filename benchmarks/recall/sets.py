"""Chats with facts in them, and questions that ask for those: what recall is measured by. Pure, the same in every run.

A question is made by rule from the words of its fact's slot, never from its value. Asked so, all facts of a slot have
one question: the second form also names another fact of the same place in the chat, as people do.
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
"""Messages within which another fact is of the same place."""
SMALL_TALK = 160
"""Exchanges among which the facts of a language lie."""


class Message(NamedTuple):
    """One message, and when it was said where that is known."""

    role: Literal["user", "assistant"]
    text: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the messages that answer it: by number (from 0), what of one must be shown, in any of its forms.

    Forms are in lower case.
    """

    question: str
    evidence: Mapping[int, tuple[str, ...]]
    kind: str = ""
    """What its set calls such questions, where it does."""

    @property
    def values(self) -> tuple[str, ...]:
        """All that answers it."""
        return tuple(dict.fromkeys(chain.from_iterable(self.evidence.values())))


@dataclass(frozen=True, slots=True)
class Chat:
    """What was said, and what is asked of it, by the form of the question."""

    name: str
    messages: tuple[Message, ...]
    asked: Mapping[str, tuple[Asked, ...]]


def recorded(file: Path) -> list[Chat]:
    """The chats of a file of samples."""
    chats = json.loads(file.read_text(encoding="utf-8"))["chats"]
    return [_recorded(chat) for chat in chats]


def own() -> list[Chat]:
    """A chat in each of our languages."""
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
    """The fact nearest to this one that is of another slot and of another value; of two, the one said less often."""
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
    messages = tuple(
        one for user, reply in said for one in (Message("user", user), Message("assistant", reply))
    )
    return Chat(language.name, messages, {"question": tuple(asked)})


def _small_talk(language: Language) -> Iterator[tuple[str, str]]:
    for number in range(SMALL_TALK):
        user, reply = language.talk[number % len(language.talk)]
        yield user.format(n=number + 20), reply.format(n=number + 20)
