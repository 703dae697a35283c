"""Sentences are recognized by their cues, and those that only look similar are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.offline.cues import (
    clause,
    decided,
    goal,
    is_condition,
    is_courtesy,
    is_decision,
    is_question,
    is_stressed,
    key_of,
    links,
    parts_of_document,
    preference,
    takes_back,
)


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("I prefer dark mode.", ("mode", "dark mode")),
        ("I'd like a latte with almond milk, please.", ("latte", "a latte with almond milk")),
        ("I don’t like onions on my pizza because they burn.", ("onions", "don’t like onions on my pizza")),
        ("My favourite colour is green.", ("colour", "green")),
        ("I'd rather pay by card", ("pay", "pay by card")),
        ("I would like to book a flight.", None),  # a request
        ("I'd like that.", None),
        ("The cat likes fish.", None),
    ],
)
def test_preferences(sentence: str, found: tuple[str, str] | None) -> None:
    assert preference(sentence) == found


@pytest.mark.parametrize(
    ("sentence", "settles"),
    [
        ("Let's go with the blue one.", True),
        ("We decided to use PostgreSQL.", True),
        ("I'll take the 10 am flight.", True),
        ("Your order has been cancelled.", True),
        ("If you like, I'll book it.", False),
        ("Shall I go ahead with it?", False),
        ("Let's see.", False),
        ("From everything we've decided so far:", False),
        ("To proceed with the change, I need your name.", False),
    ],
)
def test_decisions(sentence: str, settles: bool) -> None:
    assert is_decision(sentence) is settles


def test_a_decision_is_about_what_follows_the_words_that_settle_it() -> None:
    assert decided("Fine, let's go with the blue one.").strip() == "go with the blue one."
    assert decided("No cue here") == "No cue here"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("See https://a.org/p1, https://a.org/p2.", ["https://a.org/p1", "https://a.org/p2"]),
        ("(at http://a.org/x_(y))", ["http://a.org/x_(y)"]),
        ("<https://a.org/?q=1&r=2#s>!", ["https://a.org/?q=1&r=2#s"]),
        ("https://a.org https://a.org", ["https://a.org"]),
        ("https://a.org/" + "x" * 500, []),  # half an address is not an address
        ("http:// and https://.", []),
    ],
)
def test_links_are_exact(text: str, found: list[str]) -> None:
    assert links(text) == found


@pytest.mark.parametrize(
    "text", ["Welcome, Noor!", "Kind regards, Marta, Kaleido Strings", "Thanks!", "Sleep well."]
)
def test_courtesies(text: str) -> None:
    assert is_courtesy(text)


@pytest.mark.parametrize(
    "text", ["Thanks, my name is Noor Khan.", "Welcome, Noor! We are 18 people.", "Hi, order AB-1234?", ""]
)
def test_what_says_more_is_no_courtesy(text: str) -> None:
    assert not is_courtesy(text)


def test_parts_of_a_document() -> None:
    sentence = "My document should have sections for Introduction, Related Work and Results."
    assert parts_of_document(sentence) == ("sections", ["Introduction", "Related Work", "Results"])
    assert parts_of_document("It has many sections.") is None
    assert parts_of_document("The outline: short.") is None


def test_the_other_cues() -> None:
    assert goal("Hi, I'd like to cancel order #1.") == "I'd like to cancel order #1."
    assert goal("It rains.") == ""
    assert is_condition("Refunds must be asked for within 30 days.")
    assert not is_condition("Is it within 30 days?")
    assert is_stressed("The key finding is that X causes Y.")
    assert takes_back("Please forget the coupon.")
    assert not takes_back("Could you remove it?")
    assert is_question('Did he say "no"?"')
    assert key_of("Order No. 5") == "order_no_5"
    assert clause("dark mode, but only at night") == "dark mode"


@given(st.text(max_size=300))
def test_finds_stand_in_the_sentence(text: str) -> None:
    assert all(link in text for link in links(text))
    assert goal(text) in text
    assert clause(text) in text
    if found := preference(text):
        assert found[1] in text
