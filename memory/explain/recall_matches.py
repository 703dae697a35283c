"""Why recall returned each message of a prompt: how well it matches the question, and by which of its words.

The ranking is computed anew, from the chat as it is now and by words only: similarity in meaning requires a call to a
model, and is not stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from conversations.models import Chat
from memory.context.plan.plan import Plan
from memory.recall.analysis.highlights import highlights
from memory.recall.query import Question
from memory.recall.ranking import Ranked, words_in
from memory.recall.retrieve import Search


@dataclass(frozen=True, slots=True)
class RecallMatch:
    """A recalled message. `score` is relative to the chat's best match; None if it was not found by its words.

    `own` are the words of the question that the message has, spelled as in the question; `beside` those that only
    messages around it have. `updated_in` is the later message that updates it. With `states_wish`, the question seeks
    help, and the message may say what the user wants in general.
    """

    seq: int
    score: float | None
    own: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    updated_in: int | None = None
    states_wish: bool = False


def matches_of(chat: Chat, question: str, before_seq: int, plan: Plan) -> list[RecallMatch]:
    """The messages that `plan` recalled for `question`, best match first."""
    quotes = {quote.seq: quote for quotes in plan.recalled for quote in quotes}
    if not quotes:
        return []
    search = Search(chat, question, before_seq=before_seq)
    shown = chain.from_iterable(range(one.from_seq, one.through_seq + 1) for one in plan.verbatim)
    best: dict[int, Ranked] = {}
    ranked = search.ranked(plan.budget, shown)
    for one in ranked:
        best.setdefault(one.message.seq, one)
    highest = ranked[0].score if ranked else 1.0
    found = [
        RecallMatch(
            seq,
            best[seq].score / highest if seq in best else None,
            *(_words(search.question, question, best[seq]) if seq in best else ((), ())),
            updated_in=quote.updated_in,
            states_wish=seq in best and _states_wish(search.question, best[seq]),
        )
        for seq, quote in quotes.items()
    ]
    return sorted(found, key=lambda one: (-(one.score or 0), one.seq))


def _states_wish(question: Question, ranked: Ranked) -> bool:
    return bool(words_in(question, ranked.message) & question.wish)


def _words(question: Question, text: str, ranked: Ranked) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of `text` that the message has, and those that only the messages around it have."""
    own = words_in(question, ranked.message)
    return tuple(_as_said(question, text, own)), tuple(_as_said(question, text, ranked.words & ~own))


def _as_said(question: Question, text: str, bits: int) -> Iterator[str]:
    """Yield the selected words of the question as spelled there, since terms are stems."""
    for at, word in enumerate(question.words):
        if bits & ~question.wish & 1 << at:
            ranges = highlights(text, {word.term})
            yield text[slice(*ranges[0])] if ranges else word.term
