"""The JSON objects that a summarizer answers with, and the memory cards at the end of replies (seed 002).

Which object is wanted is told by the name of its schema, or by the instructions.

Like the prose of `summarizer`, a good object keeps every code that the summarizer was shown; a bad one is bad in a way
that real models are. This module does not know how an object is used.
"""

import json
import re
from typing import Any

from tests.support.fakes.connection import Request
from tests.support.fakes.summarizer import CODE, SummarizerInput, parse, parse_facts, summarize

KEYS = {
    "important_data_and_summary": ("important_data", "summary"),
    "important_data": ("important_data",),
    "facts_and_narrative": ("facts", "narrative"),
    "memory_card": ("goal", "lesson_context"),
}
"""By a schema's name: the keys in its instructions that identify it for a model without structured output."""

CARD_ITEMS = 4
"""The number of codes in a card: it must stay below 120 tokens."""

CARD_OPEN, CARD_CLOSE = "<MEMORY_CARD>", "</MEMORY_CARD>"
BEFORE_CARD = "Conversation context: "
"""The beginning of the message that contains the card so far."""

Answer = dict[str, Any]


def schema_name(request: Request) -> str:
    """Return the name of the schema that a request demands; "" if none."""
    text, chat = request.body.get("text") or {}, request.body.get("response_format") or {}
    return str((text.get("format") or chat.get("json_schema") or {}).get("name", ""))


def requested_object(request: Request) -> str:
    """Return the name of the object requested, by a schema or in words; "" if the request is for prose."""
    if name := schema_name(request):
        return name
    told = request.instructions
    return next((name for name, keys in KEYS.items() if all(f'"{key}"' in told for key in keys)), "")


def answer(name: str, asked: str, *, tokens: int, pattern: str = CODE) -> Answer:
    """Return a good answer to `asked`.

    Raise `AssertionError` if `asked` is not in its format, `KeyError` for other names.
    """
    if name == "facts_and_narrative":
        return _facts_and_narrative(asked, pattern)
    shown = parse(asked)
    if name == "memory_card":
        return card(shown.codes(pattern))
    data: Answer = {"important_data": _data(shown, pattern)}
    both = {**data, "summary": summarize(shown, tokens=tokens, pattern=pattern)}
    return {"important_data": data, "important_data_and_summary": both}[name]


def card(codes: list[str]) -> Answer:
    """Return a memory card that names the last few of `codes`."""
    last = codes[-CARD_ITEMS:]
    return {
        "goal": f"Note {len(codes)} codes",
        "decisions": [f"keep {code}" for code in last],
        "open_q": [f"What follows {code}?" for code in last[-1:]],
        "constraints": [],
        "techniques": ["noting"],
        "lesson_context": "codes",
    }


def wants_card(request: Request) -> bool:
    """Whether a reply should end with a card."""
    return CARD_OPEN in request.instructions


def card_block(request: Request, pattern: str) -> str:
    """Return the end of a reply that contains the card: the codes of the card so far and of this question."""
    carried = "\n".join(text for _, text in request.said[:-1] if text.startswith(BEFORE_CARD))
    asked = request.said[-1][1] if request.said else ""
    codes = list(dict.fromkeys(re.findall(pattern, f"{carried}\n{asked}")))
    return f"\n\n{CARD_OPEN}{json.dumps(card(codes))}{CARD_CLOSE}"


def _data(shown: SummarizerInput, pattern: str) -> Answer:
    new = list(dict.fromkeys(re.findall(pattern, shown.turns)))
    return {
        "user_preferences": {"notes": "in order"},
        "key_decisions": [f"keep {code}" for code in new[-1:]],
        "important_facts": [f"noted {code}" for code in new],
        "source_urls": [],
        "document_structure": {},
        "entities": ["the customer"],
        "custom_fields": {},
    }


def _facts_and_narrative(asked: str, pattern: str) -> Answer:
    """Return one fact per code. The narrative covers only the new messages, as the instructions demand."""
    new = list(dict.fromkeys(re.findall(pattern, parse_facts(asked).turns)))
    facts = [{"key": f"code_{code.lower().replace('-', '_')}", "value": code, "category": "ENTITY"} for code in new]
    told = f"They went from {new[0]} to {new[-1]}." if new else "They spoke of nothing in particular."
    return {"facts": facts, "removed": [], "narrative": f"{told} The mood was calm."}


WRONG_TYPES: Answer = {
    "important_data": ["not", "an", "object"],
    "summary": 7,
    "facts": 5,
    "removed": {"no": "list"},
    "narrative": ["a", "list"],
    "goal": {"not": "text"},
    "decisions": 12,
    "open_q": {"no": "list"},
    "constraints": None,
    "techniques": "no list",
    "lesson_context": [[]],
}
"""The field names of all objects, each with a value of the wrong type."""


def spoil(says: str, right: Answer, size: int) -> str:
    """Return an answer as text: the `right` one, or the bad one that `says` names (`behaviours.SAYS`)."""
    text = json.dumps(right)
    if says == "prose":
        return f"I would rather tell it in words. {'; '.join(re.findall(CODE, text))} are what they spoke of."
    if says == "wrong_types":
        return json.dumps({key: WRONG_TYPES.get(key) for key in right})
    if says == "half":
        return text[: len(text) // 2]
    if says == "vast":
        return json.dumps(_stretched(right, size))
    return f"Here it is:\n\n```json\n{text}\n```" if says == "fenced" else text


def _stretched(right: Answer, size: int) -> Answer:
    """Return the answer with about `size` more characters in its first text."""
    key = next((key for key, value in right.items() if isinstance(value, str)), "summary")
    return {**right, key: f"{right.get(key, '')} " + "and so on " * (size // 10)}
