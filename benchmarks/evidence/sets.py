"""The sets of chats that can be measured, by name: those whose files the environment locates.

`BEAM` and `BEAM_500K` name the folders of its chats of that length (`N/chat.json`), `LOCOMO` and `LONGMEMEVAL` a file
each, `GATEMEM` the folder of its domains, `REALMEM` and `REALTALK` the folders of their files, `SAMPLES` the folder of
the service chats (`tau`) and small orders (`tm4`). Our own languages are always available.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.evidence.beam import beam
from benchmarks.evidence.gatemem import gatemem
from benchmarks.evidence.matching import Piece
from benchmarks.evidence.questions import Question, Sample
from benchmarks.evidence.realmem import realmem
from benchmarks.evidence.realtalk import realtalk
from benchmarks.recall import public, sets
from benchmarks.recall.sets import Asked, Chat

BEAM_NUMBERS, BEAM_500K_NUMBERS = range(1, 11), range(1, 18)
REALMEM_NUMBERS = REALTALK_NUMBERS = range(1, 6)
GATEMEM_DOMAINS = ("office", "household")
"""What may be used for choosing and reporting; the rest of these sets is reserved for judging, and is not read."""


def available(environment: Mapping[str, str] = os.environ) -> dict[str, Callable[[], list[Sample]]]:
    """Return a function that reads the set, by its name."""
    found: dict[str, Callable[[], list[Sample]]] = {}
    if folder := environment.get("BEAM"):
        found["beam"] = lambda: list(beam("beam", Path(folder), BEAM_NUMBERS))
    if long := environment.get("BEAM_500K"):
        found["beam500k"] = lambda: list(beam("beam500k", Path(long), BEAM_500K_NUMBERS))
    if people := environment.get("LOCOMO"):
        found["locomo"] = lambda: list(_samples("locomo", public.locomo(Path(people))))
    if assistant := environment.get("LONGMEMEVAL"):
        found["longmemeval"] = lambda: list(_samples("longmemeval", public.longmemeval(Path(assistant))))
    if domains := environment.get("GATEMEM"):
        found["gatemem"] = lambda: list(gatemem(Path(domains), GATEMEM_DOMAINS))
    if projects := environment.get("REALMEM"):
        found["realmem"] = lambda: list(realmem(Path(projects), REALMEM_NUMBERS))
    if friends := environment.get("REALTALK"):
        found["realtalk"] = lambda: list(_samples("realtalk", realtalk(Path(friends), REALTALK_NUMBERS)))
    if samples := environment.get("SAMPLES"):
        found["tau"] = lambda: list(
            _samples("tau", sets.recorded(Path(samples) / "tau_airline_xl.json"), are_values=True)
        )
        found["tm4"] = lambda: list(_samples("tm4", sets.recorded(Path(samples) / "tm4_long.json"), are_values=True))
    found["languages"] = lambda: list(_samples("languages", sets.own(), are_values=True))
    return found


def _samples(name: str, chats: Iterable[Chat], *, are_values: bool = False) -> Iterator[Sample]:
    for number, chat in enumerate(chats, start=1):
        questions = [_question(form, one, are_values) for form, asked in chat.asked.items() for one in asked]
        yield Sample(name, number, chat.name, chat.messages, tuple(questions), chat.starts)


def _question(form: str, asked: Asked, are_values: bool) -> Question:
    """Make a question: a value is needed once, wherever it was said; messages are each needed."""
    kind = asked.kind or form
    return Question(kind, asked.question, (_value(asked),) if are_values else _texts(asked))


def _value(asked: Asked) -> Piece:
    return Piece(asked.values, is_value=True)


def _texts(asked: Asked) -> tuple[Piece, ...]:
    forms: Sequence[tuple[str, ...]] = tuple(asked.evidence.values())
    return tuple(Piece(one) for one in forms)
