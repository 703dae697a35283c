"""Reciprocal rank fusion: ranks count, the order of the lists does not, and an empty list changes nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory.fusing import fuse

RANKED = st.lists(st.integers(0, 30), unique=True, max_size=20)


@given(RANKED)
def test_one_list_alone_stays_as_it_is(items: list[int]) -> None:
    assert fuse(items) == fuse(items, []) == fuse([], items) == items


@given(RANKED, RANKED)
def test_every_item_is_there_once(one: list[int], other: list[int]) -> None:
    fused = fuse(one, other)
    assert len(fused) == len(set(fused))
    assert set(fused) == {*one, *other}


@given(RANKED, RANKED, st.integers(31, 40))
def test_what_is_first_in_both_is_first(one: list[int], other: list[int], best: int) -> None:
    assert fuse([best, *one], [best, *other])[0] == best


@given(RANKED, RANKED)
def test_who_is_better_in_both_is_better(one: list[int], other: list[int]) -> None:
    fused = fuse(one, other)
    both = [item for item in fused if item in one and item in other]
    for better in both:
        for worse in both:
            if one.index(better) < one.index(worse) and other.index(better) < other.index(worse):
                assert fused.index(better) < fused.index(worse)


@given(RANKED, RANKED)
def test_the_order_of_the_lists_decides_between_equals_alone(one: list[int], other: list[int]) -> None:
    def score(item: int) -> float:
        return sum(1 / (60 + items.index(item) + 1) for items in (one, other) if item in items)

    for fused in (fuse(one, other), fuse(other, one)):
        scores = [score(item) for item in fused]
        assert scores == sorted(scores, reverse=True)


def test_found_by_both_beats_found_by_one() -> None:
    assert fuse(["a", "both"], ["b", "both"])[0] == "both"
    assert fuse(["a", "a", "b"]) == ["a", "b"]
