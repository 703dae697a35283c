"""Finds by words and by meaning in one list: each score is relative to the best of its kind, whatever the scale."""

from hypothesis import given
from hypothesis import strategies as st

from memory.recall.question import Form
from memory.recall.ranking import FURTHER, MEANING_WEIGHT, Indexed, Lengths, Near, Ranked, fuse

SCORES = st.lists(st.just(0.0) | st.floats(0.001, 50), max_size=20)
ALIKE = Lengths(10.0, 10.0, Form())
"""Messages of both sides have the same usual length."""
NEARNESS = st.dictionaries(st.integers(1, 30), st.floats(0, 1), max_size=20)


def ranked(scores: list[float]) -> list[Ranked]:
    """A message for each score, best first; its seq is its rank."""
    return [
        Ranked(score, Indexed(seq, True, 10, ("",))) for seq, score in enumerate(sorted(scores, reverse=True), start=1)
    ]


def seqs(found: list[Ranked]) -> list[int]:
    return [one.message.seq for one in found]


def fused(scores: list[float], near: dict[int, float]) -> list[Ranked]:
    return fuse(ranked(scores), [Near(*one) for one in near.items()], ALIKE)


@given(SCORES, NEARNESS)
def test_fusion_keeps_order_of_better_in_both(scores: list[float], near: dict[int, float]) -> None:
    before = {one.message.seq: one.score for one in ranked(scores)}
    after = {one.message.seq: one.score for one in fused(scores, near)}
    for a in after:
        for b in after:
            if before[a] >= before[b] and near.get(a, 0) >= near.get(b, 0):
                assert after[a] >= after[b]


def test_the_nearest_counts_a_little_less_than_the_best_by_words() -> None:
    assert seqs(fused([3.0, 0.0, 0.0], {2: 0.5, 3: 1.0})) == [1, 3, 2]
    assert [one.score for one in fused([3.0, 0.0], {2: 1.0})] == [1.0, MEANING_WEIGHT]


def test_fusion_prefers_shorter_of_equal_sides() -> None:
    said = [Ranked(0.0, Indexed(1, True, 10, ("",))), Ranked(0.0, Indexed(2, False, 800, ("",)))]
    near = [Near(1, 0.8), Near(2, 1.0)]
    assert seqs(fuse(said, near, Lengths(20.0, 800.0, Form()))) == [1, 2]
    assert seqs(fuse(said, near, Lengths(20.0, 800.0, Form(asks_for_reply=True)))) == [2, 1]
    assert seqs(fuse(said, near, ALIKE)) == [2, 1]


def test_further_passages_of_a_message_are_less_near() -> None:
    message = Indexed(1, True, 300, ("a", "b", "c"))
    said = [Ranked(0.0, message, passage) for passage in range(3)]
    scores = [one.score for one in fuse(said, [Near(1, 1.0)], ALIKE)]
    assert scores == [MEANING_WEIGHT, MEANING_WEIGHT * FURTHER, MEANING_WEIGHT * FURTHER**2]
