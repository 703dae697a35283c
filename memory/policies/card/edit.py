"""Convert a memory card to form fields for editing by hand, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from chatmemory.text.tokens import count_tokens
from memory.policies.card.card import LISTS, TEXTS, WIRE, Card, parse_fields
from memory.policies.card.numbers import CardNumbers
from memory.policies.edit_form import BadEdit, EditField, clean, lines_of, require_at_most, require_within

LABELS: Final[dict[str, str]] = {
    "goal": "Goal",
    "constraints": "Limits and conditions",
    "decisions": "Decisions",
    "open_q": "Open questions",
    "techniques": "Methods and topics",
    "lesson_context": "Current topic",
}


def edit_fields(card: Card, numbers: CardNumbers) -> list[EditField]:
    """Return a form field for each of the card's six fields."""
    return [_field(name, getattr(card, name), numbers) for name in WIRE]


def card_from(texts: Mapping[str, str], numbers: CardNumbers) -> Card:
    """Return the card with the values of the fields. Raise `BadEdit`."""
    given: dict[str, Any] = {name: " ".join(clean(texts[name]).split()) for name in TEXTS}
    given |= {name: [line for _, line in lines_of(texts[name])] for name in LISTS}
    for name in TEXTS:
        require_within(given[name], getattr(numbers, f"{name}_tokens"), "It", name)
    for name in LISTS:
        require_at_most(len(given[name]), getattr(numbers, f"max_{name}"), name)
    fields: dict[str, Any] = parse_fields(given)
    card = Card(**fields)
    tokens = count_tokens(card.wire())
    if tokens > numbers.token_budget:
        raise BadEdit(f"The card has {tokens} tokens; the limit is {numbers.token_budget}.")
    return card


def _field(name: str, held: str | Sequence[str], numbers: CardNumbers) -> EditField:
    if isinstance(held, str):
        most = getattr(numbers, f"{name}_tokens")
        return EditField(name, LABELS[name], held, f"At most {most} tokens.", 2)
    most = getattr(numbers, f"max_{name}")
    return EditField(name, LABELS[name], "\n".join(held), f"One per line, at most {most}.", holds="lines")
