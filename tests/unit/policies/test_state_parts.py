"""Parts of states: read from answers of any form, merged without duplicates, and dropped in order."""

import json
from typing import Any

import pytest

from chatmemory.text.tokens import count_tokens
from memory.policies.state_parts import Content, Held, StatePart, trimmed

PAIRS = StatePart("pairs", "Pairs", "table")
TEXTS = StatePart("texts", "Texts")
LINKS = StatePart("links", "Links", max_tokens=100, has_links=True)
A = "https://a.example"


def rendered(content: Content) -> str:
    kinds = {name: held for name, held in content.items() if held}
    return json.dumps(kinds, indent=2) if kinds else ""


@pytest.mark.parametrize(
    ("part", "given", "held"),
    [
        (PAIRS, [{"key": "theme", "value": "dark"}], {"theme": "dark"}),
        (PAIRS, [{"key": "sections", "value": ["Intro", "Methods"]}], {"sections": ["Intro", "Methods"]}),
        (PAIRS, {"c": True, "d": None, "e": "", "f": []}, {"c": "true"}),
        (PAIRS, {"paper": {"title": "Tides", "parts": ["I", "II"]}}, {"paper": ["title: Tides", "parts: I, II"]}),
        (PAIRS, {" the\nme ": "da\u200brk\u2028mode"}, {"the me": "dark mode"}),
        (PAIRS, {"Theme": "dark", "theme": "light"}, {"Theme": "light"}),
        (PAIRS, {"": "x"}, {}),
        (PAIRS, None, {}),
        (TEXTS, ["X causes Y.", "x causes y", "Z"], ["X causes Y.", "Z"]),
        (TEXTS, "X causes Y", ["X causes Y"]),
        (TEXTS, [{"decision": "LaTeX", "when": "May"}, None, "", ["a", "b"]], ["decision: LaTeX, when: May", "a, b"]),
        (TEXTS, {"Lima": "a city"}, ["Lima: a city"]),
        (TEXTS, None, []),
        (LINKS, [f"{A}/x", f"{A}/X", f"{A}/x", f"{A}/" + "x1" * 200], [f"{A}/x", f"{A}/X"]),  # whole, or left out
    ],
)
def test_parts_read_varied_json(part: StatePart, given: Any, held: Held) -> None:
    assert part.read(given) == held


def test_long_deep_and_many_values_are_bounded() -> None:
    deep: Any = "x"
    for _ in range(50_000):
        deep = [deep]
    (fact,) = list(TEXTS.read(["word " * 5000] * 2))
    assert 50 < count_tokens(fact) <= 60
    ((key, parts),) = dict(PAIRS.read({"key " * 900: ["part " * 900] * 900, "deep": deep})).items()  # type: ignore[arg-type]
    assert 10 < count_tokens(key) <= 20
    assert len(parts) == 20
    assert all(10 < count_tokens(part) <= 20 for part in parts)
    names: Held = [f"name {number}" for number in range(99)]
    found = TEXTS.merged(names, [f"other {number}" for number in range(99)])
    assert (len(found), found[0], found[-1]) == (100, "name 98", "other 98")  # type: ignore[index]


@pytest.mark.parametrize(
    ("part", "old", "new", "after"),
    [
        (PAIRS, {"Theme": "dark", "font": "arial"}, {"theme": "light"}, {"Theme": "light", "font": "arial"}),
        (PAIRS, {"s": ["Intro"]}, {"s": ["intro", "Results"]}, {"s": ["Intro", "Results"]}),
        (TEXTS, ["Lima", "Anya Garcia"], ["LIMA", "Oslo", "anya garcia."], ["Lima", "Anya Garcia", "Oslo"]),
        (LINKS, ["url1"], ["url2", "url1"], ["url1", "url2"]),
    ],
)
def test_merge_keeps_place_and_spelling(part: StatePart, old: Held, new: Held, after: Held) -> None:
    assert part.merged(old, new) == after


# What is dropped first

KINDS = [StatePart(name, name, holds) for name, holds in (("a", "list"), ("b", "table"), ("c", "list"))]  # type: ignore[arg-type]


def full() -> dict[str, Held]:
    texts = [f"the item of number {number}" for number in range(12)]
    return {"a": texts, "b": dict.fromkeys(texts, "v"), "c": texts}


def test_the_oldest_of_the_first_in_order_goes_first_down_to_its_share() -> None:
    content, size = full(), count_tokens(rendered(full()))
    assert trimmed(content, KINDS, size, rendered) == content
    less = trimmed(content, KINDS, size - 5, rendered)
    assert (less["a"], less["b"], less["c"]) == (full()["a"][1:], content["b"], content["c"])  # type: ignore[index]
    shared = trimmed(content, KINDS, size * 2 // 3, rendered, share=size // 6)
    assert [len(shared[name]) < 12 for name in "abc"] == [True, True, False]
    assert len(shared["a"]) > 3


def test_items_below_the_floor_stay_and_a_flood_does_not_drown_others() -> None:
    kept = trimmed(full(), [StatePart("a", "a", floor=3)], 0, rendered)
    assert [len(kept[name]) for name in "abc"] == [3, 12, 12]
    flooded = {"a": ["Lima"], "c": [f"https://a.example/{number}" for number in range(100)]}
    less = trimmed(flooded, KINDS, 200, rendered, share=66)
    assert (less["a"], less["c"][-1]) == (["Lima"], "https://a.example/99")  # type: ignore[index]
