"""Invented statements in summaries: honest summaries are altered, and the checks of `answer_checks` are counted.

The chats are our own samples, and those of the folder SAMPLES; each is folded in batches of 6,000 tokens by the
built-in summarizer, whose summaries only quote. Then one thing in each summary is changed.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from django.contrib.auth.models import User

from benchmarks.figures import Figure, Group
from chatmemory.llm.offline import OfflineModel
from chatmemory.llm.protocol import Completion, Prompt, PromptMessage
from chatmemory.text.tokens import count_tokens
from memory import conf
from memory.folding import answer_checks
from memory.history.turns import Batch as FoldBatch
from memory.history.turns import StoredMessage, Turn, to_turns
from memory.policies import POLICIES
from memory.policies.protocol import Refusal, State

OURS = Path(__file__).resolve().parents[2] / "conversations" / "samples"
CHUNKED = POLICIES["chunked"]
INVENTED = "They also booked PX4417 for 1,385 euros, on 17 October 2031."
SORRY = "I'm sorry, but I can't help with that."

BARS = {"nothing": 0, "one wrong number": 85, "an invented sentence": 98}

Change = Callable[[str, random.Random], str]


@dataclass(frozen=True, slots=True)
class Batch:
    """Turns, the state before them, and an honest summary of both."""

    before: State
    turns: tuple[Turn, ...]
    summary: str


def run(owner: User) -> Group:
    """Count what becomes of each altered summary."""
    del owner  # Nothing is stored.
    batches = [batch for messages in _chats() for batch in _batches(messages)]
    figures = [Figure("summaries", len(batches), "")]
    for name, change in CHANGES.items():
        chance = random.Random(name)
        altered = [(batch, change(batch.summary, chance)) for batch in batches]
        found = [_verdict(batch, text) for batch, text in altered if text != batch.summary or change is _nothing]
        if not found:
            continue
        counts = ", ".join(f"{found.count(one)} {one}" for one in ("accepted", "asked again", "refused"))
        caught = 100 - 100 * found.count("accepted") / len(found)
        bar = BARS.get(name)
        figures.append(Figure(f"caught: {name}", caught, "%", bar=bar, at_least=bool(bar), portable=True, note=counts))
    return Group("Invented statements in summaries", tuple(figures))


def _verdict(batch: Batch, summary: str) -> str:
    shown = answer_checks.turn_texts(batch.turns)
    try:
        after = CHUNKED.absorb(batch.before, batch.turns, _completion(summary), conf.limits())
        answer_checks.check(batch.before, after, shown)
    except Refusal:
        return "refused"
    return "asked again" if answer_checks.unknown_figures(batch.before, after, shown) else "accepted"


def _batches(messages: list[tuple[str, str]]) -> Iterator[Batch]:
    limits, model, state = conf.limits(), OfflineModel(), State()
    rows = [
        StoredMessage(uuid4(), seq, role, "complete", None, count_tokens(text), content=text)
        for seq, (role, text) in enumerate(messages, start=1)
    ]
    turns = to_turns(rows)
    while batch := FoldBatch.of(turns, limits.batch_tokens):
        if not batch.turns:
            return
        ask = CHUNKED.ask(state, batch.shown, limits)
        prompt = Prompt((PromptMessage("user", ask.input),), ask.task, answer_tokens=ask.answer_tokens)
        answer = model.complete(prompt, conf.summarizer(), timeout=30)
        yield Batch(state, batch.turns, answer.text)
        state = CHUNKED.absorb(state, batch.turns, answer, limits)
        turns = turns[len(batch.turns) :]


def _chats() -> Iterator[list[tuple[str, str]]]:
    files = [*sorted(OURS.glob("*.json"))]
    if folder := os.environ.get("SAMPLES"):
        files += [Path(folder) / "tau_airline_xl.json", Path(folder) / "tm4_long.json"]
    for file in files:
        data = json.loads(file.read_text())
        for chat in data.get("chats", [data]):
            texts = ((one["role"], one.get("text") or one.get("content") or "") for one in chat["messages"])
            yield [(role, text) for role, text in texts if role in ("user", "assistant") and text]


def _completion(text: str) -> Completion:
    return Completion(text, model="altered")


def _nothing(text: str, _: random.Random) -> str:
    return text


def _wrong_numbers(text: str, chance: random.Random, number: int = 1) -> str:
    """Change one digit of so many numbers of three and more digits."""
    runs = [found.span() for found in re.finditer(r"\d{3,}", text)]
    for start, end in chance.sample(runs, min(number, len(runs))):
        at = chance.randrange(start, end)
        digit = chance.choice([one for one in "123456789" if one != text[at]])
        text = text[:at] + digit + text[at + 1 :]
    return text


_ROLE = re.compile(r"\b(?:user|assistant)\b", re.IGNORECASE)
_OTHER = {"user": "assistant", "assistant": "user"}
CHANGES: dict[str, Change] = {
    "nothing": _nothing,
    "one wrong number": _wrong_numbers,
    "three wrong numbers": lambda text, chance: _wrong_numbers(text, chance, 3),
    "an invented sentence": lambda text, _: f"{INVENTED} {text}",
    "an invented mail address": lambda text, _: f"Write to rosa.lind@post.example. {text}",
    "every statement negated": lambda text, _: re.sub(r"\b(is|are|was|were|has|have)\b", r"\1 not", text),
    "roles swapped": lambda text, _: _ROLE.sub(lambda found: _OTHER[found[0].lower()], text),
    "a refusal instead": lambda *_: SORRY,
}
