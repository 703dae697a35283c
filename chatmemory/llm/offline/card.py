"""A memory card (seed 002), quoted from the card before it and from what was said since.

What was said last wins, and within the room that is left, what holds numbers and ids. A question stays open until
somebody other than the asker says something on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chatmemory.llm.offline.bounded_json import cost, fit, take
from chatmemory.llm.offline.cues import goal, is_condition, is_decision, is_question
from chatmemory.llm.offline.extract import best, names, terms_of
from chatmemory.llm.offline.parse_request import ParsedRequest, Sentence
from chatmemory.llm.offline.value_names import content_words, named_values
from chatmemory.text.tokens import clip_end

CARD_TOKENS = 120
"""The whole card, as the instruction asks."""

GOAL_TOKENS, CONTEXT_TOKENS, ITEM_TOKENS = 24, 12, 20
"""Of the fields' own texts; less than they may have (40 and 30), so that the card has room for the others."""

MOST_SETTLED = 2
"""Decisions that come before all values told; the others of the five may be values."""

MOST_DECISIONS, MOST_QUESTIONS, MOST_CONSTRAINTS, MOST_TECHNIQUES = 5, 4, 3, 6
QUESTIONS, CONSTRAINTS, DECISIONS, TECHNIQUES = 0.25, 0.3, 0.7, 1.0
"""Shares of the room beside goal and context. What one leaves goes to the next, and names take the rest."""

ANSWERED = 0.3
"""Share of the words of a question that stand in an answer to it."""

WIRE = {
    "g": "goal",
    "c": "constraints",
    "d": "decisions",
    "oq": "open_q",
    "t": "techniques",
    "lc": "lesson_context",
}
"""The short keys in which prompts carry a card."""

_GIVES_WAY = ("open_q", "techniques", "constraints", "lesson_context", "decisions", "goal")


@dataclass(frozen=True, slots=True)
class DraftCard:
    """The six fields; lists are oldest first."""

    goal: str = ""
    decisions: tuple[str, ...] = ()
    open_q: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    techniques: tuple[str, ...] = ()
    lesson_context: str = ""


def read_card(text: str) -> DraftCard:
    """The card in `text`, with long keys or short ones; whatever is not of the right type counts as empty."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return DraftCard()
    if not isinstance(found, dict):
        return DraftCard()
    fields = {WIRE.get(key, key): value for key, value in found.items()}
    return DraftCard(
        _text(fields.get("goal")),
        _texts(fields.get("decisions")),
        _texts(fields.get("open_q")),
        _texts(fields.get("constraints")),
        _texts(fields.get("techniques")),
        _text(fields.get("lesson_context")),
    )


def card_texts(card: DraftCard) -> list[str]:
    """Everything that stands in a card."""
    lists = (*card.decisions, *card.open_q, *card.constraints, *card.techniques)
    return [text for text in (card.goal, *lists, card.lesson_context) if text]


def memory_card(talk: ParsedRequest, max_tokens: int = CARD_TOKENS) -> str:
    """The card after `talk`, whose `existing` is the card before it, as JSON of at most `max_tokens`, or 120."""
    max_tokens = min(max_tokens, CARD_TOKENS)
    before, said = read_card(talk.existing), talk.sentences()
    aim = _goal(before, said)
    card: dict[str, Any] = {"goal": aim, "decisions": [], "open_q": [], "constraints": [], "techniques": []}
    card["lesson_context"] = _context(before, said, aim)
    all_room = room = max_tokens - cost(card)
    for field, found, share, most in (
        ("open_q", _open_questions(before, said, talk.quotes()), QUESTIONS, MOST_QUESTIONS),
        ("constraints", _constraints(before, said), CONSTRAINTS, MOST_CONSTRAINTS),
        ("decisions", _decisions(before, said, talk.typed, room), DECISIONS, MOST_DECISIONS),
        ("techniques", _names(before, said), TECHNIQUES, MOST_TECHNIQUES),
    ):
        taken = take(found, min(room, int(share * all_room)), most)
        card[field] = taken[::-1]
        room -= sum(map(cost, taken))
    return fit(card, max_tokens, _GIVES_WAY, oldest_first=True)


def _goal(before: DraftCard, said: Sequence[Sentence]) -> str:
    """What the user said last to be after, else the goal before, else how the user began."""
    goals = [aim for each in said if each.by_user and (aim := goal(each.text))]
    began = [each.text for each in said if each.by_user and _is_whole(each.text)]
    return clip_end(next(iter([*goals[-1:], before.goal, *began[:1]]), ""), GOAL_TOKENS)


def _context(before: DraftCard, said: Sequence[Sentence], aim: str) -> str:
    """What the user spoke of last, beside the goal."""
    spoken = [each.text for each in said if each.by_user and _is_whole(each.text) and aim not in each.text]
    return clip_end(spoken[-1] if spoken else before.lesson_context, CONTEXT_TOKENS)


def _decisions(before: DraftCard, said: Sequence[Sentence], typed: Sequence[str], room: int) -> Iterator[str]:
    """What was settled, the newest first; then, of the card's own and of the values told since, the most telling."""
    settled = list(dict.fromkeys(_item(each.text) for each in reversed(said) if is_decision(each.text)))
    values = (
        named for each in said for named in named_values(each.text) if named.is_hard or named.is_equated
    )
    told = [f"{named.key}: {named.value}" for named in values]
    older = [text for text in dict.fromkeys([*before.decisions, *told]) if text not in settled]
    first = settled[: MOST_SETTLED if older else MOST_DECISIONS]
    yield from first
    yield from reversed(
        best(older, room, [*before.decisions, *typed], first, most=MOST_DECISIONS - len(first))
    )


def _constraints(before: DraftCard, said: Sequence[Sentence]) -> Iterator[str]:
    """Limits, the newest first, the user's before the assistant's."""
    limits = [each for each in reversed(said) if is_condition(each.text) and not is_decision(each.text)]
    ours = [_item(each.text) for each in limits if each.by_user]
    theirs = [_item(each.text) for each in limits if not each.by_user]
    yield from dict.fromkeys([*ours, *reversed(before.constraints), *theirs])


def _open_questions(before: DraftCard, said: Sequence[Sentence], quoted: Sequence[Sentence]) -> Iterator[str]:
    """The user's questions that nobody has said or quoted anything on since, the newest first."""
    asked = [(each.text, each.turn) for each in said if each.by_user and _asks(each.text)]
    answers = [
        (terms_of(each.text), each.turn)
        for each in (*said, *quoted)
        if not each.by_user and not is_question(each.text)
    ]
    questions = [*((text, 0) for text in before.open_q[-MOST_QUESTIONS:]), *asked[-MOST_QUESTIONS:]]
    open_ones = [_item(text) for text, turn in questions if not _is_answered(terms_of(text), turn, answers)]
    yield from dict.fromkeys(reversed(open_ones))


def _asks(text: str) -> bool:
    return is_question(text) and _is_whole(text)


def _is_answered(words: set[str], turn: int, answers: Sequence[tuple[set[str], int]]) -> bool:
    since = [said for said, at in answers if at >= turn]
    return any(len(words & said) >= ANSWERED * len(words) for said in since)


def _names(before: DraftCard, said: Sequence[Sentence]) -> Iterator[str]:
    """What was called by a name, the newest first."""
    known = [*before.techniques, *names([each.text for each in said])]
    yield from dict.fromkeys(_item(name) for name in reversed(known))


def _item(text: str) -> str:
    return clip_end(text, ITEM_TOKENS)


def _is_whole(text: str) -> bool:
    """Whether it is about something: more than "That's all, thank you"."""
    return len(content_words(text)) > 1


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    return tuple(filter(None, map(_text, value))) if isinstance(value, list) else ()
