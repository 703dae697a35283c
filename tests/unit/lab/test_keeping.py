"""Retention by distance (how many turns ago a fact was last said), on conversations small enough to count by hand."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.lab.retention import (
    DISTANCES,
    MOST_MENTIONS,
    NAMED,
    Haystack,
    Mention,
    NamedFactTracker,
    RetentionTally,
    RetentionTracker,
    kept_from_json,
    kept_to_json,
    spans_of,
    summed,
)


def play(memories: list[str], said: list[list[str]]) -> RetentionTracker:
    """Play turns in which `said[n]` is said after prompt n, whose memory is `memories[n]`."""
    tracker = RetentionTracker()
    for memory, mentions in zip(memories, said, strict=True):
        tracker.look(Haystack(memory))
        tracker.say([Mention(mention.casefold(), (mention,)) for mention in mentions])
    return tracker


def test_it_counts_by_distance() -> None:
    found = play(["", "alpha", "ALPHA"], [["alpha", "beta"], [], []]).tallies
    assert found[1] == RetentionTally(asked=2, kept=1, verbatim=1)  # alpha is present, beta is not
    assert found[2] == RetentionTally(asked=2, kept=1, verbatim=0)  # alpha in different case
    assert found[5] == RetentionTally()


def test_what_is_said_again_starts_anew() -> None:
    found = play(["", "alpha", "alpha", ""], [["alpha"], ["Alpha"], [], []]).tallies
    assert found[1] == RetentionTally(asked=2, kept=2, verbatim=1)  # after turn 0, and after turn 1
    assert found[2] == RetentionTally(
        asked=1, kept=0, verbatim=0
    )  # one turn old at prompt 2, two at prompt 3


def test_another_form_counts_but_not_to_the_letter() -> None:
    tracker = RetentionTracker()
    tracker.say([Mention("nyc", ("NYC",), ("New York",))])
    tracker.look(Haystack("a flight to New York"))
    assert tracker.tallies[1] == RetentionTally(asked=1, kept=1, verbatim=0)


def test_of_very_many_things_some_are_followed() -> None:
    tracker = RetentionTracker()
    tracker.say([Mention(str(number), (str(number),)) for number in range(10 * MOST_MENTIONS)])
    tracker.look(Haystack("0 10 20"))
    assert tracker.tallies[1] == RetentionTally(asked=MOST_MENTIONS, kept=3, verbatim=3)


def test_spans_of_both_sides_count_once() -> None:
    assert [mention.said for mention in spans_of("Order QX-17 please", "qx-17 is sent to Lima")] == [
        ("qx-17",),
        ("Lima",),
    ]


def test_shares() -> None:
    assert RetentionTally(4, 3, 1).share == 0.75
    assert RetentionTally(4, 3, 1).share_verbatim == 0.25
    assert RetentionTally().share is None
    assert RetentionTally().share_verbatim is None


HOTEL = Mention("heron", ("Heron",), ("The Heron",))


def named(question: str, memory: str, *, turns_between: int = 0) -> dict[int, RetentionTally]:
    """Tally the facts that a question names, `turns_between` turns after a turn about a hotel."""
    tracker = NamedFactTracker()
    tracker.say(
        [HOTEL],
        "Where shall I sleep in Ljubljana?",
        "Noted. The castle hotel in Ljubljana is the Heron. Good!",
    )
    for _ in range(turns_between):
        tracker.say([], "And now some small talk", "Noted.")
    tracker.look(question, Haystack(memory))
    return {distance: tally for distance, tally in tracker.tallies.items() if tally.asked}


@pytest.mark.parametrize(
    "question",
    [
        "Is the heron open?",
        "Book The Heron for me",
        "What was that hotel near the castle?",
        "Ljubljana: which hotel?",
    ],
)
def test_a_question_names_a_fact_by_its_value_or_by_two_rare_words_beside_it(question: str) -> None:
    assert named(question, "the castle hotel, Heron") == {5: RetentionTally(asked=1, kept=1, verbatim=1)}
    assert named(question, "the castle hotel") == {5: RetentionTally(asked=1, kept=0, verbatim=0)}


@pytest.mark.parametrize(
    "question",
    [
        "What about the castle?",  # one word
        "Where shall I sleep?",  # a different sentence of that turn
        "Herons eat fish, noted",  # no whole word, and a common one
    ],
)
def test_a_question_about_something_else_names_nothing(question: str) -> None:
    assert named(question, "Heron", turns_between=3) == {}


def test_what_everybody_says_names_nothing() -> None:
    tracker = NamedFactTracker()
    tracker.say([HOTEL], "Which hotel?", "The castle hotel is the Heron.")
    for _ in range(3):
        tracker.say([], "Which castle hotel?", "That one.")
    tracker.look("Which castle hotel?", Haystack("Heron"))
    assert all(not tally.asked for tally in tracker.tallies.values())


@pytest.mark.parametrize(("between", "distance"), [(0, 5), (4, 5), (5, 20), (99, 100), (100, 1_000_000)])
def test_what_is_named_counts_by_how_long_ago_it_was_said(between: int, distance: int) -> None:
    assert distance in NAMED
    assert named("Heron?", "Heron", turns_between=between) == {distance: RetentionTally(1, 1, 1)}


def test_what_is_said_again_is_named_at_its_new_place() -> None:
    tracker = NamedFactTracker()
    tracker.say([HOTEL], "The castle hotel is the Heron.")
    for _ in range(30):
        tracker.say([], "Fine.")
    tracker.say([HOTEL], "I like the Heron.")
    tracker.look("castle hotel?", Haystack("Heron"))
    tracker.look("Heron?", Haystack(""))
    assert tracker.tallies[5] == RetentionTally(asked=1, kept=0, verbatim=0)
    assert sum(tally.asked for tally in tracker.tallies.values()) == 1


@given(st.lists(st.lists(st.sampled_from("abcde"), max_size=4), max_size=130), st.sampled_from("abcde"))
def test_each_thing_is_asked_at_most_once_for_each_time_it_was_said(
    said: list[list[str]], remembered: str
) -> None:
    found = play([remembered] * len(said), said).tallies
    times = sum(map(len, said))
    for one in found.values():
        assert 0 <= one.verbatim <= one.kept <= one.asked <= times
    asked = [found[distance].asked for distance in DISTANCES]
    assert asked == sorted(asked, reverse=True)  # a fact seen at a long distance was seen at all shorter ones


@given(st.dictionaries(st.sampled_from(DISTANCES), st.builds(RetentionTally, *[st.integers(0, 99)] * 3)))
def test_tallies_travel_as_json_and_add_up(kept: dict[int, RetentionTally]) -> None:
    assert kept_from_json(json.loads(json.dumps(kept_to_json(kept)))) == kept
    twice = summed([kept, kept])
    assert all(twice[distance].asked == 2 * tally.asked for distance, tally in kept.items())
