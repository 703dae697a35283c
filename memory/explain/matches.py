"""Why recall brought back each message of a prompt: how well it matches the question, and by which of its words.

Ranked anew, with the chat as it is now, by words alone: what is near in meaning is asked of a model, and not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from conversations.models import Chat
from memory.context.plan import Plan
from memory.recall.analysis.highlights import highlights
from memory.recall.query import Question
from memory.recall.ranking import Ranked, words_in
from memory.recall.retrieve import Search


@dataclass(frozen=True, slots=True)
class RecallMatch:
    """A message that was brought back. `score` is a share of the best match of the chat; None: not by its words.

    `own` are words of the question that it has, as they stand there, `beside` those that only messages around it have.
    `updated_in` is the later message that says it anew.
    """

    seq: int
    score: float | None
    own: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    updated_in: int | None = None


def matches_of(chat: Chat, question: str, before_seq: int, plan: Plan) -> list[RecallMatch]:
    """The messages that `plan` brought back for `question`, the best match first."""
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
        )
        for seq, quote in quotes.items()
    ]
    return sorted(found, key=lambda one: (-(one.score or 0), one.seq))


def _words(question: Question, text: str, ranked: Ranked) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of `text` that the message has, and those that only the messages around it have."""
    own = words_in(question, ranked.message)
    return tuple(_as_said(question, text, own)), tuple(_as_said(question, text, ranked.words & ~own))


def _as_said(question: Question, text: str, bits: int) -> Iterator[str]:
    """These words of the question, as the question has them: terms are stems."""
    for at, word in enumerate(question.words):
        if bits >> at & 1:
            ranges = highlights(text, {word.term})
            yield text[slice(*ranges[0])] if ranges else word.term
