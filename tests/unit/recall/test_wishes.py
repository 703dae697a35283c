"""What users said they want in general is found by questions for help, which rarely share a word with it."""

from __future__ import annotations

import pytest

from memory.limits import MemoryLimits
from memory.recall.analysis.hashed_terms import hashed, stored_terms
from memory.recall.analysis.terms import terms
from memory.recall.analysis.wishes import WISH, states_wish
from memory.recall.candidates import weigh
from memory.recall.decision import Recall, decide
from memory.recall.query import read_question, with_wish
from memory.recall.question_forms import form_of
from tests.unit.recall.makers import Told, small_talk

(TOKEN,) = hashed([WISH], 1)
PREFERENCE = "Bulleted tables over essays: that is what I always rather read"


@pytest.mark.parametrize(
    "text",
    [
        "I would rather have tables.",
        "Seats at the window are my preference",
        "Ich nehme lieber den Zug",
        "Je préfère le train",
        "Siempre viajo en tren",
        "Viaggio sempre in treno",
        "Prefiro o comboio",
        "Ik reis liever met de trein",
        "Wolę pociąg",
        "Я предпочитаю поезд",
    ],
)
def test_a_wish_is_known_in_nine_languages(text: str) -> None:
    assert states_wish(terms(text))


def test_other_statements_are_no_wish() -> None:
    assert not states_wish(terms("The ferry to Zanzibar leaves at five, and nobody met us in May"))


def test_only_the_passage_of_a_user_that_states_it_has_the_term() -> None:
    text = "Nothing in particular. " * 30 + PREFERENCE
    assert [TOKEN in line.split() for line in stored_terms(text, 1, by_user=True).split("\n")] == [
        False,
        True,
    ]
    assert TOKEN not in stored_terms(text, 1, by_user=False).split()
    assert WISH not in terms(f"{WISH} = wish =wish")


@pytest.mark.parametrize(
    "text",
    [
        "Could you show me how to format the list?",
        "How should I format the list?",
        "What would you suggest for the list?",
        "Please format the list.",
        "Wie soll ich die Liste formatieren?",
        "Comment dois-je faire la liste ?",
        "¿Cómo debo hacer la lista?",
        "Как мне лучше сделать список, что посоветуешь?",
    ],
)
def test_a_question_for_help_also_searches_for_wishes(text: str) -> None:
    assert form_of(text).seeks_help
    question = with_wish(read_question(text, 1), 1)
    assert question.words[-1].token == TOKEN
    assert question.wish == 1 << len(question.words) - 1


@pytest.mark.parametrize(
    "text",
    [
        "What did I say about the list?",
        "When is the list due?",
        "The list is long.",
        "Was habe ich zur Liste gesagt?",
    ],
)
def test_a_question_about_what_was_said_does_not(text: str) -> None:
    question = read_question(text, 1)
    assert not question.form.seeks_help
    assert with_wish(question, 1) == question


def test_without_words_there_is_nothing_to_search_for() -> None:
    assert not with_wish(read_question("Can you do it?", 1), 1).words


def test_a_wish_ranks_above_other_passages_that_share_as_little() -> None:
    told = Told(*small_talk(20), PREFERENCE, "Noted", *small_talk(20))
    assert told.best("How should I number the harbour?")[0] == 41
    assert told.best("What was the number of the harbour?")[0] != 41


def test_a_wish_counts_for_its_own_message_alone() -> None:
    told = Told(*small_talk(20), PREFERENCE, "Noted", *small_talk(20))
    assert 42 not in told.best("How should I write the zeppelin?")


def test_a_wish_decides_nothing() -> None:
    """Where no other word occurs earlier, a wish is no reason to recall, and it does not make a request specific."""
    question = with_wish(read_question("Please book the zeppelin.", 1), 1)
    found = [()] * (len(question.words) - 1)
    matches = weigh(question, [*found, (7,)], 200, 200)
    assert not matches.has_words()
    assert decide(MemoryLimits(), question, matches, 0) == Recall("none", "nothing_new")
