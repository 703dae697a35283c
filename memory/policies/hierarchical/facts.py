"""Facts: keys with values and categories, as a summarizer tells them, a state keeps them and a prompt shows them.

A fact is known by its key, however that is spelled. What is said anew moves to the end, so a list of facts is in
order of when each was last said. Leaving a fact out of an answer says nothing about it: only what is named goes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chatmemory.text.cleaning import without_invisible
from chatmemory.text.markers import FACTS_HEADING
from chatmemory.text.tokens import clip_end, count_tokens
from memory.policies.protocol import JSON, text_in

GENERAL = "GENERAL"
CATEGORIES = ("ENTITY", "DECISION", "CONDITION", "STATE", "NUMERIC", GENERAL)

KEY_CHARS = 60
VALUE_TOKENS = 60
MOST_TOLD = 200
"""Facts that are taken of one answer."""

_SEPARATORS = re.compile(r"[\s_.-]+")


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact; key and value are single lines."""

    key: str
    value: str
    category: str = GENERAL

    @property
    def name(self) -> str:
        """The key as it is compared: "Order ID" and "order_id" are one."""
        return _SEPARATORS.sub("_", unicodedata.normalize("NFKC", self.key).casefold()).strip("_")

    @property
    def line(self) -> str:
        """As prompts have it, to the letter of seed 003."""
        return f"- {self.key}: {self.value}"


@dataclass(frozen=True, slots=True)
class FactUpdate:
    """What an answer says of facts: those that hold, and the names of those that hold no more."""

    facts: tuple[Fact, ...]
    removed: frozenset[str]


def told_in(facts: object, removed: object) -> FactUpdate:
    """What an answer's `facts` (objects with key, value and category, or one object of values by key) and `removed`
    (keys) say. A null value removes, too; what has another form is ignored.
    """
    pairs = list(_pairs(facts))[:MOST_TOLD]
    taken_back = [key for key, value, _ in pairs if value is None]
    taken_back += [key for key in removed if isinstance(key, str)] if isinstance(removed, list) else []
    made = (_fact(key, _value(value), category) for key, value, category in pairs)
    return FactUpdate(
        tuple(fact for fact in made if fact.name and fact.value),
        frozenset(_fact(key, "", GENERAL).name for key in taken_back),
    )


def merged(old: Sequence[Fact], told: FactUpdate) -> list[Fact]:
    """`old` without what was removed, and with what was told: last and with its newest value, each name once."""
    by_name = {fact.name: fact for fact in old if fact.name not in told.removed}
    for fact in told.facts:
        by_name.pop(fact.name, None)
        by_name[fact.name] = fact
    return list(by_name.values())


def fitting(facts: Sequence[Fact], max_tokens: int) -> list[Fact]:
    """Those of `facts` that fit `max_tokens` as rendered. GENERAL ones go first, then any, the longest unsaid first."""
    kept = list(facts)
    while (over := count_tokens(facts_text(kept)) - max_tokens) > 0:
        kept = _fewer(kept, over)
    return kept


def facts_text(facts: Sequence[Fact]) -> str:
    """The facts under their heading, a line each; "" if there are none.

    No line of them can be read as a marker, because each begins with its dash.
    """
    return "\n".join([FACTS_HEADING, *(fact.line for fact in facts)]) if facts else ""


def stored_facts(stored: object) -> list[Fact]:
    """The facts of any stored state at all. What is no fact is left out. Runs several times a turn."""
    rows = stored if isinstance(stored, list) else []
    facts = (
        Fact(_line(text_in(row.get("key"))), _line(text_in(row.get("value"))), _category(row.get("category")))
        for row in rows
        if isinstance(row, dict)
    )
    return [fact for fact in facts if fact.key and fact.value]


def facts_json(facts: Sequence[Fact]) -> list[JSON]:
    """The facts as a state stores them."""
    return [{"key": fact.key, "value": fact.value, "category": fact.category} for fact in facts]


def _fewer(facts: Sequence[Fact], over: int) -> list[Fact]:
    """`facts` without the first to go of them, about `over` tokens together and at least one."""
    going: set[str] = set()
    for fact in sorted(facts, key=lambda fact: fact.category != GENERAL):  # stable: the oldest first
        going.add(fact.name)
        over -= count_tokens(f"{fact.line}\n")
        if over <= 0:
            break
    return [fact for fact in facts if fact.name not in going]


def _pairs(facts: object) -> Iterator[tuple[str, object, object]]:
    """(key, value, category) of whatever looks like a fact."""
    if isinstance(facts, dict):
        yield from ((key, value, GENERAL) for key, value in facts.items())
    for row in facts if isinstance(facts, list) else ():
        if isinstance(row, dict) and isinstance(row.get("key"), str) and "value" in row:
            yield row["key"], row["value"], row.get("category")


def _fact(key: str, value: str, category: object) -> Fact:
    # A colon ends a key where facts are read back from their lines.
    bare = _line(without_invisible(key).replace(":", " "))
    return Fact(bare[:KEY_CHARS].strip(), value, _category(category))


def _value(value: object) -> str:
    """A value as one clean line within its tokens; "" for what has none."""
    parts: Collection[Any] = value if isinstance(value, list) else [value]
    texts = [str(part).lower() if isinstance(part, bool) else text_in(part) for part in parts]
    line = _line(without_invisible(", ".join(text for text in texts if text)))
    return clip_end(line, VALUE_TOKENS).strip()


def _category(value: object) -> str:
    name = value.strip().upper() if isinstance(value, str) else ""
    return name if name in CATEGORIES else GENERAL


def _line(text: str) -> str:
    return " ".join(text.split())
