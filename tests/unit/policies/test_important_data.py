"""Important data: read from answers of any form, merged without duplicates, and dropped in order when room is short."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chatmemory.text.tokens import count_tokens
from memory.policies.progressive.important_data import (
    DROP_ORDER,
    KINDS,
    LISTS,
    PAIRS,
    ImportantData,
    merged,
    rendered,
    trimmed,
)
from memory.policies.progressive.important_data_json import read

A = "https://a.example"
EMPTY = ImportantData().to_json()


def kept(**kinds: Any) -> dict[str, Any]:
    """The kinds that are not empty after `kinds` were read."""
    return {kind: found for kind, found in read(kinds).to_json().items() if found}


def merge(kind: str, old: Any, new: Any) -> Any:
    return merged(read({kind: old}), read({kind: new})).to_json()[kind]


def test_the_empty_structure_is_that_of_the_seed() -> None:
    assert EMPTY == read({}).to_json() == read(None).to_json()
    assert json.dumps(EMPTY) == (
        '{"user_preferences": {}, "key_decisions": [], "important_facts": [], "source_urls": [], '
        '"document_structure": {}, "entities": [], "custom_fields": {}}'
    )
    assert {*PAIRS, *LISTS} == set(KINDS) == set(DROP_ORDER)
    assert rendered(ImportantData()) == ""


# Reading


def test_the_example_of_the_seed_is_read_as_it_is() -> None:
    example = {
        "user_preferences": {"theme": "dark"},
        "document_structure": {"sections": ["Introduction", "Methods", "Results"]},
        "source_urls": ["https://example.com/paper1", "https://example.com/paper2"],
        "important_facts": ["X causes Y"],
    }
    assert kept(**example) == example
    assert read(json.loads(rendered(read(example)))) == read(example)


@pytest.mark.parametrize(
    ("given", "pairs"),
    [
        ([{"key": "theme", "value": "dark"}], {"theme": "dark"}),
        ([{"key": "sections", "value": ["Intro", "Methods"]}], {"sections": ["Intro", "Methods"]}),
        ([{"theme": "dark"}, "font: Arial", "brief"], {"theme": "dark", "font": "Arial", "brief": "true"}),
        ("prefers dark mode", {"prefers dark mode": "true"}),
        ({"a": 5, "b": 1.5, "c": True, "d": None, "e": "", "f": []}, {"a": "5", "b": "1.5", "c": "true"}),
        ({"paper": {"title": "Tides", "parts": ["I", "II"]}}, {"paper": ["title: Tides", "parts: I, II"]}),
        ({" the\nme ": "da\u200brk\u2028mode"}, {"the me": "dark mode"}),
        ({"Theme": "dark", "theme": "light"}, {"Theme": "light"}),
        (5, {"5": "true"}),
        ({"": "x"}, {}),
    ],
)  # fmt: skip
def test_pairs_are_read_from_what_models_write(given: Any, pairs: dict[str, Any]) -> None:
    for kind in PAIRS:
        assert kept(**{kind: given}) == ({kind: pairs} if pairs else {})


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        (["X causes Y.", "x causes y", "Z"], ["X causes Y.", "Z"]),
        ("X causes Y", ["X causes Y"]),
        (
            [{"decision": "LaTeX", "when": "May"}, 5, None, "", ["a", "b"]],
            ["decision: LaTeX, when: May", "5", "a, b"],
        ),
        ({"Lima": "a city"}, ["Lima: a city"]),
        (None, []),
    ],
)
def test_lists_are_read_from_what_models_write(given: Any, texts: list[str]) -> None:
    for kind in ("key_decisions", "important_facts", "entities"):
        assert read({kind: given}).lists[kind] == texts


@pytest.mark.parametrize(
    ("given", "links"),
    [
        (["https://a.example/x.", "See <https://a.example/y>", "url1"], [f"{A}/x", f"{A}/y", "url1"]),
        ([f"{A}/x/", "HTTPS://A.example/x", f"{A}/X"], [f"{A}/x/", f"{A}/X"]),
        (["the paper on tides", "https://a.example/" + "x1" * 200], []),
        ("https://a.example/x", ["https://a.example/x"]),
    ],
)  # fmt: skip
def test_links_are_whole_or_left_out(given: Any, links: list[str]) -> None:
    assert read({"source_urls": given}).lists["source_urls"] == links


def test_long_values_are_cut_and_many_are_bounded() -> None:
    found = read(
        {"important_facts": ["word " * 5000] * 2, "user_preferences": {"key " * 900: ["part " * 900] * 900}}
    )
    (fact,) = found.lists["important_facts"]
    ((key, parts),) = found.pairs["user_preferences"].items()
    assert 50 < count_tokens(fact) <= 60
    assert 10 < count_tokens(key) <= 20
    assert len(parts) == 20
    assert all(10 < count_tokens(part) <= 20 for part in parts)


# Merging


def test_preferences_and_links_merge_as_the_seed_shows() -> None:
    assert merge("user_preferences", {"theme": "dark"}, {"font": "arial"}) == {
        "theme": "dark",
        "font": "arial",
    }
    assert merge("source_urls", ["url1"], ["url2", "url1"]) == ["url1", "url2"]


def test_of_two_values_of_a_key_the_new_one_holds_in_the_place_of_the_old() -> None:
    assert merge("user_preferences", {"Theme": "dark", "font": "arial"}, {"theme": "light"}) == {
        "Theme": "light",
        "font": "arial",
    }
    assert merge("document_structure", {"sections": "two"}, {"sections": ["I"]}) == {"sections": ["I"]}


def test_lists_are_appended_in_order_and_each_item_once_in_its_first_spelling() -> None:
    assert merge("entities", ["Lima", "Anya Garcia"], ["LIMA", "Oslo", "anya garcia."]) == [
        "Lima",
        "Anya Garcia",
        "Oslo",
    ]
    assert merge(
        "document_structure", {"sections": ["Intro", "Methods"]}, {"sections": ["methods", "Results"]}
    ) == {"sections": ["Intro", "Methods", "Results"]}


def test_merging_is_bounded() -> None:
    names = [f"name {number}" for number in range(99)]
    found = merge("entities", names, [f"other {number}" for number in range(99)])
    assert (len(found), found[0], found[-1]) == (100, "name 98", "other 98")


# What is dropped first


def full_data(items: int = 12) -> ImportantData:
    """All seven kinds, with the same number of items each."""
    texts = [f"the item of number {number}" for number in range(items)]
    values: dict[str, Any] = {kind: dict.fromkeys(texts, "v") if kind in PAIRS else texts for kind in KINDS}
    return read({**values, "source_urls": [f"https://a.example/{number}" for number in range(items)]})


def test_what_fits_stays_as_it_is() -> None:
    data = full_data()
    assert trimmed(data, count_tokens(rendered(data))) == data


def test_the_oldest_of_the_first_kind_in_order_is_dropped_first() -> None:
    data = full_data()
    less = trimmed(data, count_tokens(rendered(data)) - 20)
    assert [len(less.to_json()[kind]) for kind in KINDS] == [12, 12, 12, 12, 12, 12, 10]  # type: ignore[arg-type]
    assert next(iter(less.pairs["custom_fields"])) == "the item of number 2"


def test_a_kind_gives_way_down_to_its_share_before_the_next_does() -> None:
    data = full_data()
    share = 500 // len(KINDS)
    found = trimmed(data, 500).to_json()
    sizes = [count_tokens(json.dumps(found[kind], indent=2)) for kind in DROP_ORDER]
    untouched = [found[kind] == data.to_json()[kind] for kind in DROP_ORDER]
    assert untouched == sorted(untouched)
    assert not untouched[0]
    assert untouched[-1]
    assert all(size > share / 2 for size in sizes)


def test_a_flood_of_one_kind_does_not_drown_the_others() -> None:
    data = read(
        {
            "user_preferences": {"theme": "dark"},
            "key_decisions": ["They take LaTeX."],
            "entities": ["Lima"],
            "source_urls": [f"https://a.example/{number}" for number in range(100)],
        }
    )
    less = trimmed(data, 200).to_json()
    assert (less["user_preferences"], less["key_decisions"], less["entities"]) == (
        {"theme": "dark"},
        ["They take LaTeX."],
        ["Lima"],
    )
    links = less["source_urls"]
    assert isinstance(links, list)
    assert links[-1] == "https://a.example/99"
    assert 5 < len(links) < 30


@pytest.mark.parametrize("tokens", [0, 1, 7, 20, 50])
def test_any_room_is_kept_to(tokens: int) -> None:
    assert count_tokens(rendered(trimmed(full_data(100), tokens))) <= tokens
