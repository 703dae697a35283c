"""How much of its originals a rebuilt memory keeps, over one bite or many, and what the memory before had lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory.folding.drift import Survey
from memory.folding.provenance import retained_in
from memory.history.turns import Turn
from memory.policies import State, get_policy
from tests.unit.folding.makers import turn

CHUNKED = get_policy("chunked")
texts = st.text(max_size=20)


def surveyed(state: State, bites: list[list[Turn]], before: State | None = None) -> Survey:
    """Compare the states with all of `bites`, which both have folded."""
    survey = Survey(CHUNKED, state, before, 7)
    for bite in bites:
        survey.take(bite, of_both=True)
    return survey


def test_what_survived_is_told_over_one_bite_and_over_many() -> None:
    state = State("Booked flight HAT062 for $120.")
    first, second = (
        [turn("Book HAT062 please", "It is $120.")],
        [turn("My id is 3RK2T9", "Noted, HAT062 again.")],
    )
    one = retained_in(CHUNKED, state, [*first, *second])
    assert {"HAT062", "$120"} <= set(one.kept)
    assert "3RK2T9" in one.lost
    many = surveyed(state, [first, second]).retained
    assert set(many.kept) == set(one.kept)
    assert set(many.lost) == set(one.lost)
    assert 0 < many.share < 1


def test_nothing_to_keep_is_all_kept() -> None:
    assert surveyed(State(), [[]]).retained.share == 1.0


SAID = [
    [turn("Book HAT062 for Mei Patel", "It is $120.")],
    [turn("Now HAT039 instead", "That is $130, until 2024-05-17.")],
]


def test_the_drift_tells_what_the_memory_before_had_lost_and_added() -> None:
    before = State("Mei booked HAT062 for $999, call her on 555-0199.")
    after = State("Mei Patel took HAT039 for $130 until 2024-05-17.")
    drift = surveyed(after, SAID, before).drift
    assert drift is not None
    assert drift["against"] == 7
    assert drift["lost"] == ["Mei Patel", "HAT039", "$130", "2024-05-17"]
    assert drift["only_before"] == ["HAT062"]
    assert drift["added"] == {"before": ["$999", "555-0199"], "after": []}
    assert 0 < drift["share"]["before"] < drift["share"]["after"] < 1


def test_only_what_both_had_folded_is_compared() -> None:
    before, after = State("HAT062"), State("HAT062 and HAT039")
    survey = Survey(CHUNKED, after, before, 7)
    survey.take(SAID[0], of_both=True)
    survey.take(SAID[1], of_both=False)
    drift = survey.drift
    assert drift is not None
    assert drift["share"]["before"] == drift["share"]["after"]
    assert (drift["lost"], drift["only_before"], drift["added"]["after"]) == ([], [], [])
    assert "HAT039" in survey.retained.kept


def test_without_a_memory_before_there_is_no_drift() -> None:
    assert surveyed(State("HAT062"), SAID).drift is None
    assert surveyed(State("HAT062"), [[turn("so far so good")]], State("x")).drift is None


@given(st.lists(texts, max_size=4), st.text(max_size=60), st.text(max_size=60))
def test_a_drift_of_any_texts_at_all(said: list[str], before: str, after: str) -> None:
    drift = surveyed(State(after), [[turn(text)] for text in said], State(before)).drift
    if drift is not None:
        assert not set(drift["lost"]) & set(drift["only_before"])
        assert all(0 <= share <= 1 for share in drift["share"].values())
