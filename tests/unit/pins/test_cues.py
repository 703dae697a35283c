"""The quick search for cues: it never skips a text in which the patterns find something, and skips most other texts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from memory.pins.wordings import LANGUAGES
from memory.pins.wordings.cues import Words, openings
from tests.unit.pins import sayings

SAMPLES = Path(__file__).resolve().parents[3] / "conversations" / "samples"


def texts_of(folder: Path) -> list[str]:
    """All texts in the recorded chats of a folder."""
    chats = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return [text for text in _strings(chats) if " " in text]


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part)


def assert_nothing_is_missed(texts: Sequence[str]) -> None:
    looks = [(text, Words.of(text)) for text in texts]
    has_cue = {(text, one.code) for text, _ in looks for one in LANGUAGES if one.cue.search(text)}
    passed = {
        (text, one.code) for text, words in looks for one in LANGUAGES if one.openings.may_be_among(words)
    }
    assert has_cue, "these texts have no cue at all"
    assert has_cue - passed == set()


def test_what_has_a_cue_is_never_passed_by() -> None:
    taken_back = [text for text, _ in sayings.TAKEN_BACK]
    found = [
        *sayings.INSTRUCTIONS,
        *sayings.PREFERENCES,
        *sayings.IDENTITIES,
        *sayings.REMEMBERED,
        *taken_back,
    ]
    assert_nothing_is_missed(found + [text.upper() for text in found] + sayings.NOTHING + texts_of(SAMPLES))


@pytest.mark.skipif("SAMPLES" not in os.environ, reason="SAMPLES names no folder of recorded conversations")
def test_it_is_never_passed_by_in_real_chats() -> None:
    assert_nothing_is_missed(texts_of(Path(os.environ["SAMPLES"])))


def test_a_question_without_cues_is_passed_by_in_every_language() -> None:
    words = Words.of("Which trains leave for Ljubljana on Tuesday morning, and what does a seat cost?")
    assert [one.code for one in LANGUAGES if one.openings.may_be_among(words)] == []


@pytest.mark.parametrize(
    ("cue", "text", "may_be"),
    [
        ("always|never", "I never knew", True),
        ("always|never", "I nevertheless knew", False),
        ("prefer\\w*|no longer", "Preferably", True),
        ("prefer\\w*|no longer", "no idea", False),
        ("prefer\\w*|no longer", "no, it takes longer", True),
        ("time ?zone", "my timezone", True),
        ("answers?", "an Answer", True),
        ("from (?:now|here)(?: on)*", "from there", True),
        ("I'm|l'avenir", "i'm here", True),
        ("I'm|l'avenir", "l'après-midi", False),
    ],
)
def test_a_cue_may_be_where_its_words_are(cue: str, text: str, may_be: bool) -> None:
    assert openings(cue).may_be_among(Words.of(text)) is may_be


@pytest.mark.parametrize("cue", ["\\w+thing", "(?:no|any) longer", "a\\w*", "if?"])
def test_a_cue_that_could_begin_with_anything_is_refused(cue: str) -> None:
    with pytest.raises(ValueError, match="a cue begins with"):
        openings(cue)
