"""A memory card (seed 002), quoted from the previous card and the messages since.

The latest statements win and, where room is short, those with numbers and ids. A question stays open until somebody
other than its author says something about it.
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
"""Maximum tokens of the whole card, as the instruction demands."""

GOAL_TOKENS, CONTEXT_TOKENS, ITEM_TOKENS = 24, 12, 20
"""Token limits of single texts; less than the instruction allows (40 and 30), to leave room for the other fields."""

MOST_SETTLED = 2
"""Decisions that precede values from the messages; the others of the five may be values."""

MOST_DECISIONS, MOST_QUESTIONS, MOST_CONSTRAINTS, MOST_TECHNIQUES = 5, 4, 3, 6
QUESTIONS, CONSTRAINTS, DECISIONS, TECHNIQUES = 0.25, 0.2, 0.8, 1.0
"""Shares of the room that goal and context leave. Unused room goes to the next field; names take the rest."""

ANSWERED = 0.3
"""Share of a question's words that an answer must contain."""

WIRE = {
    "g": "goal",
    "c": "constraints",
    "d": "decisions",
    "oq": "open_q",
    "t": "techniques",
    "lc": "lesson_context",
}
"""The short keys that a card has in prompts."""

_GIVES_WAY = ("open_q", "techniques", "constraints", "lesson_context", "decisions", "goal")


@dataclass(frozen=True, slots=True)
class DraftCard:
    """The six fields of a card. Lists are oldest first."""

    goal: str = ""
    decisions: tuple[str, ...] = ()
    open_q: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    techniques: tuple[str, ...] = ()
    lesson_context: str = ""


def read_card(text: str) -> DraftCard:
    """Parse a card with long or short keys. Fields of the wrong type count as empty."""
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
    """All texts of a card."""
    lists = (*card.decisions, *card.open_q, *card.constraints, *card.techniques)
    return [text for text in (card.goal, *lists, card.lesson_context) if text]


def memory_card(talk: ParsedRequest, max_tokens: int = CARD_TOKENS) -> str:
    """The card after `talk`, whose `existing` is the previous card, as JSON of at most `max_tokens`, or 120 if less."""
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
    """The goal that the user stated last, else the previous goal, else the user's first sentence."""
    goals = [aim for each in said if each.by_user and (aim := goal(each.text))]
    began = [each.text for each in said if each.by_user and _is_whole(each.text)]
    return clip_end(next(iter([*goals[-1:], before.goal, *began[:1]]), ""), GOAL_TOKENS)


def _context(before: DraftCard, said: Sequence[Sentence], aim: str) -> str:
    """The user's last sentence that does not contain the goal, else the previous context."""
    spoken = [each.text for each in said if each.by_user and _is_whole(each.text) and aim not in each.text]
    return clip_end(spoken[-1] if spoken else before.lesson_context, CONTEXT_TOKENS)


def _decisions(before: DraftCard, said: Sequence[Sentence], typed: Sequence[str], room: int) -> Iterator[str]:
    """Decisions, newest first; then the most informative of the previous decisions and the values stated since."""
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
    """Limits, newest first, the user's before the assistant's."""
    limits = [each for each in reversed(said) if is_condition(each.text) and not is_decision(each.text)]
    ours = [_item(each.text) for each in limits if each.by_user]
    theirs = [_item(each.text) for each in limits if not each.by_user]
    yield from dict.fromkeys([*ours, *reversed(before.constraints), *theirs])


def _open_questions(before: DraftCard, said: Sequence[Sentence], quoted: Sequence[Sentence]) -> Iterator[str]:
    """The user's questions that nobody has answered since, by word or quotation, newest first."""
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
    """Names of things, newest first."""
    known = [*before.techniques, *names([each.text for each in said])]
    yield from dict.fromkeys(_item(name) for name in reversed(known))


def _item(text: str) -> str:
    return clip_end(text, ITEM_TOKENS)


def _is_whole(text: str) -> bool:
    """Whether a sentence has content, unlike "That's all, thank you"."""
    return len(content_words(text)) > 1


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    return tuple(filter(None, map(_text, value))) if isinstance(value, list) else ()
