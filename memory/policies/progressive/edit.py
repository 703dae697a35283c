"""Convert the state of `progressive` to form fields, the narrative and one for each kind of data, and back.

A line that was not edited keeps its stored value, even if the line does not fully express it (a value that is a
list).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from chatmemory.text.markers import quote_markers
from memory.policies.edit_form import (
    MANY_ROWS,
    BadEdit,
    EditField,
    clean,
    lines_of,
    pair_in,
    require_at_most,
    require_within,
)
from memory.policies.progressive.important_data import (
    KINDS,
    MOST_ITEMS,
    PAIRS,
    ImportantData,
    Value,
    rendered,
)
from memory.policies.progressive.important_data_json import KEY_TOKENS, LINK_TOKENS, TEXT_TOKENS, read
from memory.policies.progressive.narrative_length import summary_cap
from memory.policies.progressive.stored import data_of, folds_of, state_of
from memory.policies.protocol import State

PAIR_HELP = "One per line, as name: value."
ITEM_HELP = "One per line."

LABELS: Final[dict[str, str]] = {
    "user_preferences": "User preferences",
    "key_decisions": "Decisions",
    "important_facts": "Facts",
    "source_urls": "Links",
    "document_structure": "Document structure",
    "entities": "People, places and things",
    "custom_fields": "Other fields",
}


def edit_fields(state: State) -> list[EditField]:
    """Return a field for the narrative, and one for each kind of data."""
    cap = summary_cap(max(1, folds_of(state)))
    data = data_of(state)
    return [
        EditField("summary", "Story", state.summary, f"At most {cap:,} tokens.", MANY_ROWS),
        *(
            EditField(
                kind,
                LABELS[kind],
                "\n".join(_shown(data, kind)),
                PAIR_HELP if kind in PAIRS else ITEM_HELP,
                holds="pairs" if kind in PAIRS else "lines",
            )
            for kind in KINDS
        ),
    ]


def from_fields(before: State, texts: Mapping[str, str], data_cap: int) -> State:
    """Return the state with the values of the fields; all data take at most `data_cap` tokens. Raise `BadEdit`."""
    folds = max(1, folds_of(before))
    summary = quote_markers(clean(texts["summary"]))
    require_within(summary, summary_cap(folds), "The story", "summary")
    known = data_of(before)
    pairs = {kind: _pairs(known, kind, texts[kind]) for kind in PAIRS}
    lists = {kind: _items(known, kind, texts[kind]) for kind in KINDS if kind not in PAIRS}
    data = ImportantData(pairs, lists)
    require_within(rendered(data), data_cap, "Everything but the story, as sent to the model,")
    return state_of(summary, data, folds)


def _shown(data: ImportantData, kind: str) -> Mapping[str, tuple[str, Value]]:
    """The lines of a kind, each with the name and value, or the item, that it shows."""
    if kind not in PAIRS:
        return {item: (item, "") for item in data.lists.get(kind, ())}
    found = data.pairs.get(kind, {})
    return {
        f"{key}: {', '.join(value) if isinstance(value, list) else value}": (key, value)
        for key, value in found.items()
    }


def _pairs(known: ImportantData, kind: str, text: str) -> dict[str, Value]:
    shown, result = _shown(known, kind), dict[str, Value]()
    for number, line in lines_of(text):
        key, value = shown[line] if line in shown else _pair(kind, line, number)
        if key.casefold() in {one.casefold() for one in result}:
            raise BadEdit(f"Line {number} repeats the name of another line.", kind)
        result[key] = value
    require_at_most(len(result), MOST_ITEMS, kind)
    return result


def _pair(kind: str, line: str, number: int) -> tuple[str, Value]:
    key, value = pair_in(line, number, kind)
    require_within(key, KEY_TOKENS, f"The name in line {number}", kind)
    require_within(value, TEXT_TOKENS, f"The value in line {number}", kind)
    return key, value


def _items(known: ImportantData, kind: str, text: str) -> list[str]:
    shown = _shown(known, kind)
    items = [line if line in shown else _item(kind, line, number) for number, line in lines_of(text)]
    require_at_most(len(items), MOST_ITEMS, kind)
    return list(dict.fromkeys(items))


def _item(kind: str, line: str, number: int) -> str:
    is_link = kind == "source_urls"
    require_within(line, LINK_TOKENS if is_link else TEXT_TOKENS, f"Line {number}", kind)
    found = read({kind: [line]}).lists[kind]
    if len(found) != 1:
        raise BadEdit(f"Line {number} is not one link.", kind)
    return found[0]
