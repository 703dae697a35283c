"""Facts, which are keys with values and categories: parsed from answers, merged, cut, edited, stored and rendered.

A fact is identified by its key, in any spelling. A fact that is said again moves to the end, so a list of facts is in
the order in which each was last said. Leaving a fact out of an answer does not remove it: only naming it does. A value
that is replaced stays for a while under a key of its own, "order_id (earlier)", because the same key is often used for
another order, passenger or date.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from chatmemory.text.cleaning import without_invisible
from chatmemory.text.markers import FACTS_HEADING
from chatmemory.text.tokens import count_tokens
from memory.policies.protocol import JSON, text_in
from memory.policies.state_parts import BadEdit, EditField, StatePart, as_text, enough, one_line, raw_pairs

GENERAL, STATE = "GENERAL", "STATE"
"""`STATE` is how far something has come: its earlier values are of no use."""
PARTS: Final = (
    StatePart("ENTITY", "Who and what", "table"),
    StatePart("DECISION", "Decisions", "table"),
    StatePart("CONDITION", "Limits and preferences", "table"),
    StatePart(STATE, "Status", "table"),
    StatePart("NUMERIC", "Amounts, dates and times", "table"),
    StatePart(GENERAL, "Anything else", "table"),
)
"""The categories of facts, as people edit them."""
CATEGORIES: Final = tuple(part.name for part in PARTS)

KEY_CHARS = 60
VALUE_TOKENS = 60
MAX_EARLIER = 3
"""Earlier values that a fact keeps.

On the long chats of docs/lab.md, 91.2 % of the facts are there after 20 turns with 3, 90.5 % with 1, 91.2 % with 2,
89.7 % with 5 and 85.5 % with none. On its shorter ones, on which nothing was chosen, it is 93.0 % with 3 and 83.9 %
with none.
"""
MAX_FACTS = 200
"""Maximum number of facts that are taken from one answer."""

_EARLIER = re.compile(r" \(earlier(?: \d+)?\)$")
_SEPARATORS = re.compile(r"[\s_.-]+")


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact; key and value are single lines."""

    key: str
    value: str
    category: str = GENERAL

    @property
    def name(self) -> str:
        """The key in the form in which keys are compared: "Order ID" and "order_id" are the same."""
        return _SEPARATORS.sub("_", unicodedata.normalize("NFKC", self.key).casefold()).strip("_")

    def earlier(self, number: int) -> Fact:
        """The fact under the key of earlier value `number`, counted from 1, which is the one before."""
        mark = " (earlier)" if number == 1 else f" (earlier {number})"
        return Fact(self.key[: KEY_CHARS - len(mark)] + mark, self.value, self.category)

    @property
    def is_earlier(self) -> bool:
        """Whether the value is an earlier one."""
        return _EARLIER.search(self.key) is not None

    @property
    def line(self) -> str:
        """The fact as prompts contain it, exactly as in seed 003."""
        return f"- {self.key}: {self.value}"


def parse_update(facts: object, removed: object) -> tuple[list[Fact], set[str]]:
    """What an answer says about facts: those that hold, and the names of those that no longer do.

    `facts` are objects with key, value and category, or one object of values by key; `removed` are keys. A null value
    removes the fact, too. Anything of another form is ignored.
    """
    rows: list[tuple[str, object, object]] = []
    if isinstance(facts, dict):
        rows = [(key, value, GENERAL) for key, value in facts.items()]
    for row in facts if isinstance(facts, list) else ():
        if isinstance(row, dict) and isinstance(row.get("key"), str) and "value" in row:
            rows.append((row["key"], row["value"], row.get("category")))
    rows = rows[:MAX_FACTS]
    read = [_fact(key, one_line(as_text(value), VALUE_TOKENS), category) for key, value, category in rows]
    gone = [key for key, value, _ in rows if value is None]
    gone += [key for key in removed if isinstance(key, str)] if isinstance(removed, list) else []
    return [fact for fact in read if fact.name and fact.value], {_fact(key, "", GENERAL).name for key in gone}


def merged(old: Sequence[Fact], new: Sequence[Fact], removed: Collection[str]) -> list[Fact]:
    """Return `old` without the removed names and with the new facts last: each name once, with its newest value.

    A value that changed is kept as an earlier one, before the new one.
    """
    by_name = {fact.name: fact for fact in old}
    for name in removed:
        _pop_with_earlier(by_name, name)
    for fact in new:
        values = _pop_with_earlier(by_name, fact.name)
        if not fact.is_earlier and fact.category != STATE:
            others = [held for held in values if held.value.casefold() != fact.value.casefold()][:MAX_EARLIER]
            numbered = [replace(held, key=fact.key).earlier(at) for at, held in enumerate(others, start=1)]
            by_name |= {earlier.name: earlier for earlier in reversed(numbered)}
        by_name[fact.name] = fact
    return list(by_name.values())


def fitting(facts: Sequence[Fact], max_tokens: int) -> list[Fact]:
    """Return those of `facts` that fit into `max_tokens` as rendered.

    GENERAL facts are dropped first, then any, starting with those that were not said for the longest time.
    """
    kept = list(facts)
    while (over := count_tokens(facts_text(kept)) - max_tokens) > 0:
        order = sorted(kept, key=lambda fact: fact.category != GENERAL)  # stable: the oldest first
        costs = [count_tokens(f"{fact.line}\n") for fact in order]
        going = {fact.name for fact in order[: enough(costs, over)]}
        kept = [fact for fact in kept if fact.name not in going]
    return kept


def facts_text(facts: Sequence[Fact]) -> str:
    """Render the facts under their heading, one per line; "" if there are none.

    None of these lines can be mistaken for a marker, because each begins with a dash.
    """
    return "\n".join([FACTS_HEADING, *(fact.line for fact in facts)]) if facts else ""


def stored_facts(stored: object) -> list[Fact]:
    """Return the facts of any stored state, skipping anything that is not a fact. Called several times per turn."""
    facts = (
        Fact(_flat(text_in(row.get("key"))), _flat(text_in(row.get("value"))), _category(row.get("category")))
        for row in (stored if isinstance(stored, list) else [])
        if isinstance(row, dict)
    )
    return [fact for fact in facts if fact.key and fact.value]


def facts_json(facts: Sequence[Fact]) -> list[JSON]:
    """The facts in the format in which a state stores them."""
    return [{"key": fact.key, "value": fact.value, "category": fact.category} for fact in facts]


def fact_fields(facts: Sequence[Fact]) -> list[EditField]:
    """A form field for each category."""
    return [part.field(_pairs(facts, part)) for part in PARTS]


def facts_from(texts: Mapping[str, str], before: Sequence[Fact]) -> list[Fact]:
    """The facts of the form fields: known ones in the order in which they were last said, new ones last.

    Raise `BadEdit`.
    """
    by_name: dict[str, Fact] = {}
    for part in PARTS:
        pairs = part.parsed(texts[part.name], _pairs(before, part))
        for key, value in raw_pairs(pairs):
            if len(key) > KEY_CHARS:
                raise BadEdit(f"A name has {len(key)} characters; the limit is {KEY_CHARS}.", part.name)
            fact = _fact(key, as_text(value), part.name)
            if not fact.name:
                raise BadEdit("A name has neither letters nor digits.", part.name)
            if fact.name in by_name:
                raise BadEdit("Two facts have the same name.", part.name)
            by_name[fact.name] = fact
    places = {fact.name: place for place, fact in enumerate(before)}
    return sorted(by_name.values(), key=lambda fact: places.get(fact.name, len(places)))


def _pairs(facts: Sequence[Fact], part: StatePart) -> dict[str, str | list[str]]:
    return {fact.key: fact.value for fact in facts if fact.category == part.name}


def _pop_with_earlier(by_name: dict[str, Fact], name: str) -> list[Fact]:
    """Take the fact of that name and its earlier values out of `by_name`, newest first."""
    fact = by_name.pop(name, None)
    if fact is None:
        return []
    numbers = range(1, MAX_EARLIER + 1)
    return [fact, *(held for at in numbers if (held := by_name.pop(fact.earlier(at).name, None)))]


def _fact(key: str, value: str, category: object) -> Fact:
    # When facts are parsed back from their lines, a key ends at the colon.
    bare = _flat(without_invisible(key).replace(":", " "))
    return Fact(bare[:KEY_CHARS].strip(), value, _category(category))


def _category(value: object) -> str:
    name = value.strip().upper() if isinstance(value, str) else ""
    return name if name in CATEGORIES else GENERAL


def _flat(text: str) -> str:
    return " ".join(text.split())
