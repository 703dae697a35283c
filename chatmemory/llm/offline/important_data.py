"""Important data in the seven kinds of seed 001, quoted from a conversation, and optionally a summary of the rest.

Every value is quoted from the conversation. Each kind has a share of the room; what it does not use goes to the kinds
after it, and facts come last and take the rest.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from chatmemory.llm.offline.bounded_json import cost, dumps, fit, take
from chatmemory.llm.offline.cues import (
    is_decision,
    is_question,
    is_stressed,
    links,
    parts_of_document,
    preference,
)
from chatmemory.llm.offline.extract import best, names, prose
from chatmemory.llm.offline.parse_request import ParsedRequest, Sentence
from chatmemory.llm.offline.points import pieces_kept, pieces_said, points
from chatmemory.text.spans import scan
from chatmemory.text.tokens import clip_end

HEADING = "[IMPORTANT DATA FROM PREVIOUS CONVERSATIONS]"
"""The heading of important data in a prompt, verbatim from seed 001."""

EMPTY: dict[str, Any] = {
    "user_preferences": {},
    "key_decisions": [],
    "important_facts": [],
    "source_urls": [],
    "document_structure": {},
    "entities": [],
    "custom_fields": {},
}
"""The seven kinds. `custom_fields` is for models that can invent further kinds."""

DATA_TOKENS = 300
"""Length of the answer in tokens if the prompt does not give one, and the maximum for data next to a summary."""

DATA_AND_SUMMARY_TOKENS = 800
"""Length of both in tokens if the prompt does not give one."""

LINKS, PREFERENCES, PARTS, DECISIONS, NAMES = 0.30, 0.20, 0.15, 0.30, 0.15
"""Shares of the room for all kinds."""

STRESSED = 0.5
"""The share of the room for facts that is reserved for what the user calls important."""

VALUE_TOKENS, SENTENCE_TOKENS = 20, 40
"""Maximum tokens of a preference, and of a decision or fact."""
_GIVES_WAY = (
    "entities",
    "important_facts",
    "key_decisions",
    "document_structure",
    "user_preferences",
    "source_urls",
)


def data_texts(message: str) -> list[str]:
    """The texts of important data in a prompt, without the JSON around them; [] for any other message."""
    heading, _, text = message.partition("\n")
    if heading != HEADING:
        return []
    try:
        kinds = json.loads(text)
    except (ValueError, RecursionError):
        return []
    held = kinds.values() if isinstance(kinds, dict) else ()
    return [line for kind in held for line in _texts(kind)]


def _texts(kind: object) -> list[str]:
    if isinstance(kind, dict):
        pairs = (
            (key, ", ".join(map(str, value)) if isinstance(value, list) else value)
            for key, value in kind.items()
        )
        return [f"{key}: {value}" for key, value in pairs]
    return [text for text in kind if isinstance(text, str)] if isinstance(kind, list) else []


def important_data(talk: ParsedRequest, max_tokens: int) -> str:
    """The seven kinds as JSON of at most `max_tokens`, unless not even the empty kinds fit."""
    return fit(extracted(talk, max_tokens), max_tokens, _GIVES_WAY)


def data_and_summary(talk: ParsedRequest, max_tokens: int) -> str:
    """`important_data`, and a `summary` of the existing summary and the messages, in the rest of `max_tokens`.

    The summary also repeats the data, because later data will replace them in time.
    """
    data = extracted(talk, min(DATA_TOKENS, max_tokens // 2))
    answer = {"important_data": data, "summary": ""}
    said = [*pieces_kept(talk.existing), *pieces_said(talk.texts)]
    chosen = points(said, max_tokens - cost(answer), [talk.existing, *talk.typed])
    return fit(answer | {"summary": prose(chosen)}, max_tokens, ("summary",))


def extracted(talk: ParsedRequest, max_tokens: int) -> dict[str, Any]:
    """Extract the facts of each kind, as JSON of about `max_tokens`."""
    said = talk.sentences()
    all_room = room = max_tokens - cost(EMPTY)
    data = EMPTY | {"user_preferences": {}, "document_structure": {}}
    kinds: list[tuple[str, float, Iterable[Any]]] = [
        ("source_urls", LINKS, dict.fromkeys(link for text in talk.texts for link in links(text))),
        ("user_preferences", PREFERENCES, _preferences(said)),
        ("document_structure", PARTS, _structure(said)),
        ("key_decisions", DECISIONS, _decisions(said)),
        ("entities", NAMES, _names(said)),
    ]
    for kind, share, found in kinds:
        taken = take(found, min(room, int(share * all_room)))
        data[kind] = dict(taken) if isinstance(EMPTY[kind], dict) else taken
        room -= sum(map(cost, taken))
    return data | {"important_facts": _facts(said, room, talk.typed, covered=dumps(data))}


def _preferences(said: Sequence[Sentence]) -> Iterable[tuple[str, str]]:
    """The user's preferences, newest first; of two on one subject, the newer."""
    found = [preference(each.text) for each in reversed(said) if each.by_user and not is_question(each.text)]
    newest = dict(reversed([pair for pair in found if pair]))
    return [(key, clip_end(newest[key], VALUE_TOKENS)) for key in reversed(newest)]


def _structure(said: Sequence[Sentence]) -> Iterable[tuple[str, list[str]]]:
    found = [parts_of_document(each.text) for each in said if not is_question(each.text)]
    return dict(pair for pair in found if pair).items()


def _decisions(said: Sequence[Sentence]) -> Iterable[str]:
    """Decisions, newest first, because later ones replace earlier ones."""
    return (_cut(each.text) for each in reversed(said) if is_decision(each.text))


def _names(said: Sequence[Sentence]) -> Iterable[str]:
    """Names, most frequent first, as they were first written."""
    found = names([each.text for each in said])
    first = {name.casefold(): name for name in reversed(found)}
    return [first[name] for name, _ in Counter(name.casefold() for name in found).most_common()]


def _facts(said: Sequence[Sentence], room: int, typed: Sequence[str], covered: str) -> list[str]:
    """What the user calls important, then statements with numbers, ids or dates that are not in `covered`."""
    known = {span.casefold() for span, _ in scan(covered)}
    stated = [each for each in said if not is_question(each.text)]
    stressed = [_cut(each.text) for each in stated if each.by_user and is_stressed(each.text)]
    first = take((text for text in stressed if dumps(text) not in covered), int(STRESSED * room))
    telling = [
        _cut(each.text)
        for each in stated
        if any(hard and span.casefold() not in known for span, hard in scan(each.text))
    ]
    room -= sum(map(cost, first))
    return first + take(best(telling, room, typed, [covered, *first]), room)


def _cut(sentence: str) -> str:
    return clip_end(sentence, SENTENCE_TOKENS)
