"""The two layers of `hierarchical` as form fields: facts by category, and the narrative, one piece per line.

Facts keep the order in which they were last said, in any field; new ones come last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from chatmemory.text.markers import quote_markers
from memory.policies.edit_form import MANY_ROWS, BadEdit, EditField, lines_of, pair_in, require_within
from memory.policies.hierarchical.facts import (
    CATEGORIES,
    KEY_CHARS,
    VALUE_TOKENS,
    Fact,
    facts_text,
    parse_update,
    stored_facts,
)
from memory.policies.hierarchical.narrative import NarrativePiece, joined, state_of, stored_pieces
from memory.policies.protocol import State

LABELS: Final[dict[str, str]] = {
    "ENTITY": "Who and what",
    "DECISION": "Decisions",
    "CONDITION": "Limits and preferences",
    "STATE": "Status",
    "NUMERIC": "Amounts, dates and times",
    "GENERAL": "Anything else",
}


def edit_fields(state: State) -> list[EditField]:
    """Return the narrative, and a field for each category."""
    facts = stored_facts(state.data.get("facts"))
    narrative = joined(stored_pieces(state))
    fields = [EditField("narrative", "Story", narrative, "One part of the chat per line.", MANY_ROWS)]
    for category in CATEGORIES:
        held = "\n".join(_line(fact) for fact in facts if fact.category == category)
        fields.append(
            EditField(category, LABELS[category], held, "One per line, as name: value.", holds="pairs")
        )
    return fields


def from_fields(before: State, texts: Mapping[str, str], facts_cap: int, narrative_cap: int) -> State:
    """Return the state with the values of the fields, with caps in tokens. Raise `BadEdit`."""
    facts = _facts(stored_facts(before.data.get("facts")), texts)
    pieces = _pieces(stored_pieces(before), texts["narrative"])
    require_within(facts_text(facts), facts_cap, "All facts together, as sent to the model,")
    require_within(joined(pieces), narrative_cap, "The story", "narrative")
    return state_of(facts, pieces)


def _line(fact: Fact) -> str:
    return f"{fact.key}: {fact.value}"


def _facts(known: list[Fact], texts: Mapping[str, str]) -> list[Fact]:
    by_name: dict[str, Fact] = {}
    for category in CATEGORIES:
        shown = {_line(fact): fact for fact in known if fact.category == category}
        for number, line in lines_of(texts[category]):
            fact = shown.get(line) or _fact(category, line, number)
            if fact.name in by_name:
                raise BadEdit(f"Line {number} repeats the name of another fact.", category)
            by_name[fact.name] = fact
    places = {fact.name: place for place, fact in enumerate(known)}
    return sorted(by_name.values(), key=lambda fact: places.get(fact.name, len(places)))


def _fact(category: str, line: str, number: int) -> Fact:
    key, value = pair_in(line, number, category)
    if len(key) > KEY_CHARS:
        raise BadEdit(
            f"The name in line {number} has {len(key)} characters; the limit is {KEY_CHARS}.", category
        )
    require_within(value, VALUE_TOKENS, f"The value in line {number}", category)
    told = parse_update([{"key": key, "value": value, "category": category}], None)
    if not told.facts:
        raise BadEdit(f"The name in line {number} has neither letters nor digits.", category)
    return told.facts[0]


def _pieces(known: list[NarrativePiece], text: str) -> list[NarrativePiece]:
    """Convert the lines to pieces. Unchanged ones keep their spans, and if the number of lines is the same, all do."""
    lines = [quote_markers(line) for _, line in lines_of(text)]
    spans = {piece.text: (piece.from_seq, piece.through_seq) for piece in known}
    in_place = len(lines) == len(known)
    pieces: list[NarrativePiece] = []
    for at, line in enumerate(lines):
        beside = (known[at].from_seq, known[at].through_seq) if in_place else (0, 0)
        pieces.append(NarrativePiece(*spans.get(line, beside), line))
    return pieces
