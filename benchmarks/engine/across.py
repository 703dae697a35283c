"""Memory across chats: a question in a new chat of a person with 10,000 others over that of one with 10 others.

Each chat has ten turns of words as they are distributed in speech, and all are found from one scope. A prompt for a
question is planned in turn for both people, and for one whose chats share nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import accumulate
from statistics import median

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from benchmarks import bulk
from benchmarks.figures import Figure, Group, percentile, ratio
from benchmarks.recall.speed import COMMON, RARE, VOCABULARY, pick, settle, word
from conversations.models import Across, Chat, Message, Role, Status
from memory.across import scope_index
from memory.across.consent import set_consent
from memory.context.build import preview
from memory.models import MemoryScope, ScopedMessage
from memory.recall.terms import stored_terms

FEW, MANY = 10, 10_000
MESSAGES, WORDS = 20, 25
ROUNDS, WARM_UP = 60, 10
BATCH = 250
BAR = 1.3


def run(owner: User, *, many: int = MANY) -> Group:
    """Time prompts, and beside them the turns of both that end, which add their messages to what can be found."""
    chance = random.Random(5)
    weights = list(accumulate(1 / (rank + 1) for rank in range(VOCABULARY)))
    words = [word(rank) for rank in range(VOCABULARY)]

    def said(number: int) -> str:
        return " ".join(chance.choices(words, cum_weights=weights, k=number))

    people = {name: User.objects.create_user(f"{name} chats") for name in ("few", "many", "none")}
    known = {}
    for name, count in (("few", FEW), ("many", many), ("none", FEW)):
        known[name] = _fill(people[name], count, said)
        set_consent(people[name], people[name], across=Across.OFF if name == "none" else Across.ALL, lifts_pins=False)
    scope_index.fill()
    settle()
    new = {name: Chat.objects.create(owner=person, policy="chunked") for name, person in people.items()}
    rare = {words[rank] for rank in RARE}

    def rare_words(name: str) -> str:
        """The rare words of something that was said."""
        return next(asked for text in iter(lambda: chance.choice(known[name]), "") if (asked := _among(text, rare)))

    questions = {
        "rare words": rare_words,
        "common words": lambda _: pick(chance, words, COMMON, 4),
        "twelve words or so": lambda name: " ".join(chance.choice(known[name]).split()[:20]),
    }
    figures: list[Figure] = []
    for kind, question in questions.items():
        spent: dict[str, list[float]] = {name: [] for name in new}
        quoted = 0
        for number in range(WARM_UP + ROUNDS):
            for name, chat in new.items():
                text = f"What is {question(name)}?"
                started = time.perf_counter()
                plan = preview(chat, text).plan
                if number >= WARM_UP:
                    spent[name].append((time.perf_counter() - started) * 1000)
                    quoted += name == "many" and bool(plan.elsewhere)
        note = (
            f"{median(spent['many']):.1f} ms, 95th percentile {percentile(spent['many'], 0.95):.1f}; "
            f"{FEW} chats {median(spent['few']):.1f} and {percentile(spent['few'], 0.95):.1f}, sharing nothing "
            f"{median(spent['none']):.1f}; {quoted} of {ROUNDS} prompts quote other chats"
        )
        title = f"a prompt by {kind}, {many:,} chats over {FEW}"
        figures.append(Figure(title, ratio(spent["many"], spent["few"]), "×", bar=BAR, portable=True, note=note))
    found = ScopedMessage.objects.filter(owner_id=people["many"].pk).count()
    figures.append(Figure("messages found from one scope", found, "", note=f"{MemoryScope.objects.count()} scopes"))
    return Group(f"Memory across {many:,} chats of a person", tuple(figures))


def _among(text: str, words: set[str]) -> str:
    found = [one for one in text.split() if one in words]
    return " ".join(found) if len(found) >= 3 else ""


def _fill(person: User, count: int, said: Callable[[int], str]) -> list[str]:
    """Store the chats of a person; return what was said in the last of them."""
    now = timezone.now()
    for start in range(0, count, BATCH):
        chats = [
            Chat(owner=person, policy="chunked", title=f"chat {n}", last_seq=MESSAGES, created_at=now, updated_at=now)
            for n in range(start, min(count, start + BATCH))
        ]
        texts = [said(WORDS) for _ in range(len(chats) * MESSAGES)]
        with transaction.atomic():
            bulk.insert(chats)
            bulk.insert(
                [
                    Message(
                        chat=chat,
                        seq=seq,
                        role=Role.USER if seq % 2 else Role.ASSISTANT,
                        content=text,
                        terms=stored_terms(text, person.pk),
                        token_count=2 * WORDS,
                        status=Status.COMPLETE,
                        created_at=now,
                        completed_at=now,
                    )
                    for place, text in enumerate(texts)
                    for chat, seq in [(chats[place // MESSAGES], place % MESSAGES + 1)]
                ]
            )
    return texts
