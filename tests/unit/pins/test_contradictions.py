"""Which later statement replaces an earlier one, and which two both hold."""

import pytest

from memory.pins.statements import Statement, replaces, statements, takes_back


def stated(text: str) -> Statement:
    """The lasting statement in `text`."""
    return next(one for one in statements(text) if not one.about)


REPLACED = [
    ("Always use emojis in your answers.", "Never use emojis in your answers."),
    (
        "Always format dates as Month Day, Year when I ask about deadlines.",
        "Always format dates as Day.Month.Year when I ask about deadlines.",
    ),
    ("I prefer tea over coffee.", "I prefer coffee over tea."),
    ("Always answer in metric units.", "always answer in METRIC units."),
    ("Please call me Sam.", "Call me Ada."),
    ("My name is Noor.", "Sorry, my name is Nour."),
    ("My pronouns are he/him.", "My pronouns are they/them."),
]
BOTH = [
    ("Always answer in metric units.", "Always answer in German."),
    ("Always use APA style when I ask about references.", "Always use ISO dates when I ask about deadlines."),
    (
        "Always include visual aids like tree diagrams when I ask about dependent events.",
        "Always provide step-by-step explanations when I ask about probability concepts.",
    ),
    ("I prefer tea over coffee.", "I prefer trains over planes."),
    ("I prefer window seats.", "I prefer short meetings."),
    ("My name is Noor.", "I'm allergic to peanuts."),
    ("My name is Augusta.", "Call me Ada."),
    ("My first name is Ada.", "My last name is King."),
    ("Call me Ada.", "Call me Captain when we play chess."),
    ("I'm allergic to nuts.", "I'm allergic to dairy."),
    ("Remember that I have two children.", "Remember that I live in Leeds."),
]


@pytest.mark.parametrize(("earlier", "later"), REPLACED)
def test_nearly_the_same_or_the_opposite_takes_its_place(earlier: str, later: str) -> None:
    assert replaces(stated(later), stated(earlier))


@pytest.mark.parametrize(("one", "other"), BOTH)
def test_compatible_statements_both_stay(one: str, other: str) -> None:
    assert not replaces(stated(one), stated(other))
    assert not replaces(stated(other), stated(one))


@pytest.mark.parametrize(
    ("said", "held", "gone"),
    [
        (
            "Never mind the metric units.",
            ["Always answer in metric units.", "Always answer in German."],
            [True, False],
        ),
        (
            "Stop using emojis.",
            ["Always use emojis in your answers.", "Keep your answers short."],
            [True, False],
        ),
        ("I'm no longer vegetarian.", ["I'm vegetarian.", "I am a vegan."], [True, False]),
        ("I am not a vegetarian any more.", ["I'm vegetarian."], [True]),
        (
            "I'm not allergic to nuts anymore.",
            ["I'm allergic to nuts.", "I'm allergic to nuts and fish.", "I'm allergic to peanuts."],
            [True, False, False],
        ),
        ("I'm no longer vegan, I'm diabetic now.", ["I'm vegan.", "I'm diabetic."], [True, False]),
        ("Forget it.", ["Always answer in metric units."], [False]),
        ("Never mind that.", ["Remember that I have two children."], [False]),
        ("Stop the server.", ["Always answer in metric units."], [False]),
        ("Ignore the error in line 7.", ["Always list every error when I ask about a log."], [False]),
    ],
)
def test_withdrawal_matches_its_words(said: str, held: list[str], gone: list[int]) -> None:
    assert [any(takes_back(one, text) for one in statements(said)) for text in held] == gone
