"""What questions name, and when memory has it, on conversations small enough to count by hand."""

import pytest

from memory.lab.conversation import KnownFact
from memory.lab.measures import Haystack, NamedTracker, spans_of

HOTEL = KnownFact("Heron", ("The Heron",))


def counted(question: str, memory: str, *, turns_between: int = 0) -> tuple[int, int]:
    """Count what a question names and its memory has, `turns_between` turns after a turn about a hotel."""
    tracker = NamedTracker()
    tracker.say(
        [HOTEL],
        "Where shall I sleep in Ljubljana?",
        "Noted. The castle hotel in Ljubljana is the Heron. Good!",
    )
    for _ in range(turns_between):
        tracker.say([], "And now some small talk", "Noted.")
    tracker.look(question, Haystack(memory))
    return tracker.named, tracker.held


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
    assert counted(question, "the castle hotel, Heron") == (1, 1)
    assert counted(question, "the castle hotel", turns_between=200) == (1, 0)


@pytest.mark.parametrize(
    "question",
    [
        "What about the castle?",  # one word
        "Where shall I sleep?",  # a different sentence of that turn
        "Herons eat fish, noted",  # no whole word, and a common one
    ],
)
def test_a_question_about_something_else_names_nothing(question: str) -> None:
    assert counted(question, "Heron", turns_between=3) == (0, 0)


@pytest.mark.parametrize(
    ("said", "later"),
    [
        (
            "Which hotel? The castle hotel is the Heron.",
            ["Which castle hotel? That one."] * 3,
        ),  # everybody says it
        ("The castle hotel is the Heron.", ["I like the Heron."]),  # it is known by its new sentence
    ],
)
def test_what_names_it_no_more(said: str, later: list[str]) -> None:
    tracker = NamedTracker()
    tracker.say([HOTEL], said)
    for text in later:
        tracker.say([HOTEL] if "Heron" in text else [], text)
    tracker.look("Which castle hotel?", Haystack("Heron"))
    assert tracker.named == 0


def test_spans_of_both_sides_count_once() -> None:
    found = spans_of("Order QX-17 please", "qx-17 is sent to Lima")
    assert [fact.forms for fact in found] == [("qx-17",), ("Lima",)]


@pytest.mark.parametrize(
    ("text", "form", "is_there"),
    [
        ("Your code is QX7.", "QX7", True),
        ("your code is qx7.", "QX7", True),
        ("on May\n21", "May 21", True),
        ("in 2011", "11", False),  # part of a word does not count
        ("11 of 2011", "11", True),
        ("(11)", "11", True),
        ("£11", "£11", True),
        ("QX7QX7 QX7", "QX7", True),  # the first two hits touch each other, the last is a whole word
        ("nothing", "", False),
        ("", "QX7", False),
        ("我们去北京吧", "北京", True),  # no spaces between words
    ],
)
def test_it_finds_whole_words(text: str, form: str, is_there: bool) -> None:
    assert Haystack(text).has([form]) is is_there
