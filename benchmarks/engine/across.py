"""Memory across chats: a prompt in a new chat of a person with 10,000 others over that of one with few others.

Each chat has ten turns, of words as they are distributed in speech. A person with ten chats has said few of them often,
so what is asked with common words is compared with a person of 1,000 chats, for whom as many messages are read.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from itertools import accumulate
from statistics import median

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from benchmarks import bulk
from benchmarks.figures import Figure, Group, ratio
from benchmarks.recall.speed import COMMON, VOCABULARY, pick, settle, word
from conversations.models import Across, Chat, Message, Role, Status
from memory.across import scope_index
from memory.across.consent import set_consent
from memory.context.build import preview
from memory.recall.terms import stored_terms

CHATS = {"few": 10, "some": 1_000, "many": 10_000, "none": 10}
"""The chats of four people; those of the last share nothing."""
MESSAGES, WORDS = 20, 25
ROUNDS, WARM_UP = 60, 10
BATCH = 250
BAR = 1.3


def run(owner: User) -> Group:
    """Time prompts by what is asked: words of one message, of which both find as much; and words said everywhere."""
    chance = random.Random(5)
    weights = list(accumulate(1 / (rank + 1) for rank in range(VOCABULARY)))
    words = [word(rank) for rank in range(VOCABULARY)]

    def said(number: int) -> str:
        return " ".join(chance.choices(words, cum_weights=weights, k=number))

    once = [" ".join(word(VOCABULARY + 4 * n + at) for at in range(4)) for n in range(WARM_UP + ROUNDS)]
    new: dict[str, Chat] = {}
    for name, count in CHATS.items():
        person = User.objects.create_user(f"{name} chats")
        _fill(person, count, said, once)
        set_consent(person, person, across=Across.OFF if name == "none" else Across.ALL, lifts_pins=False)
        new[name] = Chat.objects.create(owner=person, policy="chunked")
    scope_index.fill()
    settle()
    questions: dict[str, Callable[[int], str]] = {
        "what was said once": once.__getitem__,
        "four common words": lambda _: pick(chance, words, COMMON, 4),
        "twelve words or so": lambda _: said(20),
    }
    figures: list[Figure] = []
    for kind, question in questions.items():
        spent: dict[str, list[float]] = {name: [] for name in new}
        quoted = 0
        for number in range(WARM_UP + ROUNDS):
            text = f"What is {question(number)}?"
            for name, chat in new.items():
                started = time.perf_counter()
                plan = preview(chat, text).plan
                if number >= WARM_UP:
                    spent[name].append((time.perf_counter() - started) * 1000)
                    quoted += name == "many" and bool(plan.elsewhere)
        times = ", ".join(f"{CHATS[name]:,}: {median(spent[name]):.1f}" for name in ("few", "some", "many"))
        note = f"ms by chats: {times}; sharing nothing {median(spent['none']):.1f}; {quoted} of {ROUNDS} quote others"
        for below in ("few", "some") if kind == "what was said once" else ("some",):
            title = f"a prompt by {kind}, {CHATS['many']:,} chats over {CHATS[below]:,}"
            figures.append(Figure(title, ratio(spent["many"], spent[below]), "×", bar=BAR, portable=True, note=note))
    return Group("Memory across the chats of a person", tuple(figures))


def _fill(person: User, count: int, said: Callable[[int], str], once: Sequence[str]) -> None:
    """Store the chats of a person, and in the first of them what is said once."""
    now = timezone.now()
    for start in range(0, count, BATCH):
        chats = [
            Chat(owner=person, policy="chunked", title=f"chat {n}", last_seq=MESSAGES, created_at=now, updated_at=now)
            for n in range(start, min(count, start + BATCH))
        ]
        texts = [said(WORDS) for _ in range(len(chats) * MESSAGES)]
        if start == 0:
            texts[: len(once)] = [f"{text} {rare}" for text, rare in zip(texts, once, strict=False)]
        with transaction.atomic():
            bulk.insert(chats)
            bulk.insert(
                [
                    Message(
                        chat=chats[place // MESSAGES],
                        seq=place % MESSAGES + 1,
                        role=Role.ASSISTANT if place % 2 else Role.USER,
                        content=text,
                        terms=stored_terms(text, person.pk),
                        token_count=2 * WORDS,
                        status=Status.COMPLETE,
                        created_at=now,
                        completed_at=now,
                    )
                    for place, text in enumerate(texts)
                ]
            )
