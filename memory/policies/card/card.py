"""The memory card (seed 002): what a chat is about, in six short fields; how cards are updated and kept small.

Pure values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, TypeAlias

from chatmemory.text.cleaning import without_invisible
from chatmemory.text.tokens import clip_end, count_tokens
from memory.policies.answers import object_in
from memory.policies.card.numbers import CardNumbers
from memory.policies.protocol import JSON, Refusal

WIRE: Final = {
    "goal": "g",
    "constraints": "c",
    "decisions": "d",
    "open_q": "oq",
    "techniques": "t",
    "lesson_context": "lc",
}
"""The fields, with the short keys used in prompts (seed 002, toWire)."""

TEXTS: Final = ("goal", "lesson_context")
LISTS: Final = ("constraints", "decisions", "open_q", "techniques")

MOST_STEPS = 100
"""Maximum number of items dropped from one card before giving up (seed 002: guard)."""

TEXT_CHARS = 4000
"""Characters of one text of an answer that are read: far more than any card has room for."""

CardUpdate: TypeAlias = "dict[str, str | tuple[str, ...]]"
"""The fields that an answer names. A field that it does not name keeps its value."""

UnsaidFilter: TypeAlias = "Callable[[Collection[str]], Collection[str]]"
"""A function that returns which of some texts must not be remembered, because nobody said them."""


@dataclass(frozen=True, slots=True)
class Card:
    """The six fields; lists are oldest first."""

    goal: str = ""
    constraints: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    open_q: tuple[str, ...] = ()
    techniques: tuple[str, ...] = ()
    lesson_context: str = ""

    def wire(self) -> str:
        """The card as prompts contain it: one line of compact JSON with short keys."""
        return _compact({short: getattr(self, name) for name, short in WIRE.items()})

    def to_json(self) -> dict[str, JSON]:
        """The card with its long keys, for storage and for a summarizer."""
        return {name: list(told) if isinstance(told, tuple) else told for name, told in asdict(self).items()}


def nothing_unsaid(texts: Collection[str]) -> Collection[str]:
    """Return none of them: the default of `unsaid`."""
    return ()


LAST_RESORT: Final = Card(goal="Conversation")
"""The card that replaces one that dropping cannot make small enough (seed 002: the nuclear option)."""


def read_card(
    text: str, numbers: CardNumbers, most: int, unsaid: UnsaidFilter = nothing_unsaid
) -> CardUpdate:
    """Parse the card in an answer, without the texts that `unsaid` returns, and cut it to `most` tokens.

    Raise `Refusal` if there is no JSON object, if none of its fields has the right type, if nothing is left, or if it
    cannot be cut that far.
    """
    told = parse_fields(object_in(text))
    if not told:
        raise Refusal("wrong_shape")
    gone = unsaid(items_of(told))
    kept = _without(told, gone) if gone else told
    if not kept:
        raise Refusal("unsaid")
    return _cut(kept, numbers, most)


def items_of(told: CardUpdate) -> list[str]:
    """All texts of the fields that an answer names."""
    return [item for value in told.values() for item in ((value,) if isinstance(value, str) else value)]


def _without(told: CardUpdate, gone: Collection[str]) -> CardUpdate:
    """Return `told` without the texts in `gone`. A field that becomes empty is removed, so its old value stays."""
    left: CardUpdate = {}
    for name, value in told.items():
        if isinstance(value, str):
            if value not in gone:
                left[name] = value
        elif items := tuple(item for item in value if item not in gone):
            left[name] = items
        elif not value:
            left[name] = value
    return left


def is_card(text: str) -> bool:
    """Whether `text` contains a card."""
    try:
        return bool(parse_fields(object_in(text)))
    except Refusal:
        return False


def one_line(text: str) -> str:
    """The beginning of `text` on one line, without invisible characters."""
    return " ".join(filter(None, map(without_invisible, text[:TEXT_CHARS].split())))


def parse_fields(found: Mapping[str, Any], clean: Callable[[str], str] = one_line) -> CardUpdate:
    """Return the fields of `found` that have the right type, under long or short keys, cleaned; others are ignored."""
    named = {name: found.get(name, found.get(short)) for name, short in WIRE.items()}
    told: CardUpdate = {name: clean(named[name]) for name in TEXTS if isinstance(named[name], str)}
    for name in LISTS:
        if isinstance(values := named[name], list):
            items = tuple(item for one in values if isinstance(one, str) and (item := clean(one)))
            if items or not values:
                told[name] = items
    return told


def stored_card(stored: Mapping[str, Any]) -> Card:
    """Return the card of any stored state. A field of the wrong type counts as empty."""
    told: dict[str, Any] = parse_fields(stored)
    return Card(**told)


def updated(old: Card, told: CardUpdate, numbers: CardNumbers) -> Card:
    """Return `{...old, ...told}`: fields are replaced, never appended to. The result is cut to all caps."""
    changed: dict[str, Any] = told
    return fitted(capped(replace(old, **changed), numbers), numbers) or LAST_RESORT


def capped(card: Card, numbers: CardNumbers) -> Card:
    """Return `card` within the caps of its fields: the last items of each list, the beginning of each text."""
    return Card(
        goal=clip_end(card.goal, numbers.goal_tokens),
        constraints=_last(card.constraints, numbers.max_constraints),
        decisions=_last(card.decisions, numbers.max_decisions),
        open_q=_last(card.open_q, numbers.max_open_q),
        techniques=_last(card.techniques, numbers.max_techniques),
        lesson_context=clip_end(card.lesson_context, numbers.lesson_context_tokens),
    )


def fitted(card: Card, numbers: CardNumbers) -> Card | None:
    """Return `card` within the token budget in wire form; None if dropping items does not suffice."""
    return _dropped(card, numbers, numbers.token_budget, Card.wire)


def _cut(told: CardUpdate, numbers: CardNumbers, most: int) -> CardUpdate:
    """Cut the fields of an answer to `most` tokens of JSON. Raise `Refusal` if dropping items does not suffice."""
    fields: dict[str, Any] = told

    def text_of(card: Card) -> str:
        return _compact({name: getattr(card, name) for name in told})

    small = _dropped(capped(Card(**fields), numbers), numbers, most, text_of)
    if small is None:
        raise Refusal("wrong_shape")
    return {name: getattr(small, name) for name in told}


def _dropped(card: Card, numbers: CardNumbers, most: int, text_of: Callable[[Card], str]) -> Card | None:
    """Drop items in the seed's order until `card` has at most `most` tokens; None if that does not suffice."""
    for _ in range(MOST_STEPS):
        if count_tokens(text_of(card)) <= most:
            return card
        smaller = _drop_one(card, numbers)
        if smaller == card:
            return None
        card = smaller
    return card if count_tokens(text_of(card)) <= most else None


def _drop_one(card: Card, numbers: CardNumbers) -> Card:
    """Drop the oldest open question, else constraint, decision, technique above the floor, else cut the goal."""
    for name, floor in (
        ("open_q", 0),
        ("constraints", 0),
        ("decisions", 0),
        ("techniques", numbers.techniques_floor),
    ):
        items: tuple[str, ...] = getattr(card, name)
        if len(items) > floor:
            fewer: dict[str, Any] = {name: items[1:]}
            return replace(card, **fewer)
    return replace(card, goal=clip_end(card.goal, numbers.goal_floor_tokens))


def _last(items: tuple[str, ...], most: int) -> tuple[str, ...]:
    return items[-most:] if most else ()


def _compact(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
