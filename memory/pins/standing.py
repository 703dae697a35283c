"""Standing instructions and preferences that the summarizer lists beside its answer, in any language. Pure.

It is the same for every policy: an answer that is an object has one more field, any other one more part below a line of
its own. What is listed is a quote of a message; `memory.pins.pins.pin_quoted` checks that, because it has the messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from chatmemory.llm.protocol import Completion, Schema
from memory.pins.statements import MAX_SENTENCE_CHARS, MAX_STATEMENTS, Statement, StatementKind, may_be_pinned
from memory.policies.answers import object_in
from memory.policies.protocol import Ask, Refusal
from memory.policies.state_parts import object_schema

FIELD = "standing"
HEADING = "=== STANDING ==="

_LIST = """\
{where} what the user says in the new turns that every later reply must respect: how to answer from now on, and \
lasting preferences. Copy one sentence of the user's for each, word for word and in its language, after \
"instruction: " or "preference: ". Leave out what concerns a single task, what is quoted or pasted, and what the user \
has taken back. {none}
"""
_IN_OBJECT = _LIST.format(
    where=f'The object has one more field, "{FIELD}": a list of texts with', none="The list may be empty."
)
_BELOW = _LIST.format(
    where=f"After all that, below a line {HEADING}, list one to a line",
    none=f"Without any, leave out the line {HEADING}, too.",
)
_HEADING = re.compile(r"^\W*=+ *STANDING *=+\W*$", re.IGNORECASE | re.MULTILINE)
_WORD = re.compile(r"\S+")
_ITEM = re.compile(r"[\s*•-]*(instruction|preference)\s*:(.+)", re.IGNORECASE)


def with_standing(ask: Ask) -> Ask:
    """Return `ask`, which also requests the list."""
    if ask.schema is None:
        return replace(ask, answer_format=f"{ask.answer_format}\n{_BELOW}")
    properties = {**ask.schema.schema["properties"], FIELD: {"type": "array", "items": {"type": "string"}}}
    schema = Schema(ask.schema.name, object_schema(properties))
    return replace(ask, answer_format=f"{ask.answer_format}\n{_IN_OBJECT}", schema=schema)


def parted(ask: Ask, answer: Completion) -> tuple[Completion, tuple[Statement, ...]]:
    """Return the answer to `ask` without the list, and what the list says; a field of an object is left where it is."""
    if ask.schema is None:
        text, *listed = _HEADING.split(answer.text, maxsplit=1)
        return replace(answer, text=text), _read("".join(listed).splitlines())
    try:
        found = object_in(answer.text).get(FIELD)
    except Refusal:
        found = None
    return answer, _read(found if isinstance(found, list) else ())


def _read(listed: Iterable[object]) -> tuple[Statement, ...]:
    """The statements of a list that may be pinned, each once."""
    return tuple(dict.fromkeys(_statements(listed)))


def _statements(listed: Iterable[object]) -> Iterator[Statement]:
    for line in islice(listed, MAX_STATEMENTS):
        found = _ITEM.fullmatch(line) if isinstance(line, str) else None
        if found is None:
            continue
        quote = " ".join(found[2].split()).strip("\"'“”„«» ")
        if 1 < len(quote) <= MAX_SENTENCE_CHARS and may_be_pinned(quote):
            yield Statement(StatementKind(found[1].lower()), quote)


def place_of(quote: str, text: str) -> int:
    """The position of `quote` in `text`, whatever white space is between its words; -1 if it is not there."""
    # Not by a pattern: hostile text of a megabyte would take a second, in the transaction that publishes a fold.
    flat = " ".join(text.split())
    at = flat.find(" ".join(quote.split()))
    if at < 0:
        return -1
    word = next(islice(_WORD.finditer(text), flat.count(" ", 0, at), None))
    return word.start() + at - (flat.rfind(" ", 0, at) + 1)
