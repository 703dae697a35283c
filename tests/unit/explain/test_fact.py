"""Whether a text contains a fact, which versions do, and how a prompt contains it."""

import pytest

from memory.explain.trace import has_fact, held_spans, ways_in
from memory.recall.question import read_question


def words(text: str) -> set[str]:
    return {word.term for word in read_question(text, 1).words}


@pytest.mark.parametrize(
    ("asked", "text", "is_in"),
    [
        ("MFRB94", "Your reservation is mfrb94.", True),
        ("MFRB94", "Your reservation is MFRB9.", False),
        ("nut allergies", "She has an allergy: nuts.", True),
        ("window seat", "Two window seats were kept.", True),
        ("the", "The the the.", False),
        (
            "window seat",
            f"The window is shut. {'Nothing else was said for a long while. ' * 30}The seat is taken.",
            False,
        ),
    ],
)
def test_a_text_has_a_fact_if_a_passage_has_all_its_words(asked: str, text: str, is_in: bool) -> None:
    assert has_fact(text, words(asked)) is is_in


@pytest.mark.parametrize(
    ("held", "spans"), [("yynnyn", [(1, 2, 3), (5, 5, 6)]), ("nyy", [(2, 3, None)]), ("nn", []), ("", [])]
)
def test_spans_of_versions(held: str, spans: list[tuple[int, int, int | None]]) -> None:
    assert list(held_spans((number, one == "y") for number, one in enumerate(held, start=1))) == spans


def test_fact_presence_is_read_from_prompt_sections() -> None:
    sections = [
        ("instructions", "Say MFRB94."),
        ("narrative", "The code MFRB94 was given."),
        ("window", "No code."),
        ("recall", "[9] User: MFRB94"),
        ("question", "MFRB94"),
    ]
    assert ways_in(sections, words("MFRB94")) == ["summary", "recalled"]
