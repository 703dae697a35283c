"""Test whether a text may contain a cue of a language by comparing words, which is cheap for nine languages. Pure.

A cue is a pattern of alternatives. Searching a text for all of them takes a tenth of a millisecond per language.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HEAD = 3
"""Number of first letters that identify a cue's first word if that word has several forms."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text and their first letters, case-folded."""

    whole: frozenset[str]
    heads: frozenset[str]

    @classmethod
    def of(cls, text: str) -> Words:
        """Collect the words of `text`."""
        whole = frozenset(_WORD.findall(text.casefold()))
        return cls(whole, frozenset(word[:HEAD] for word in whole))


@dataclass(frozen=True, slots=True)
class Openings:
    """The beginnings of cues: one whole word, several, or the first letters of a word that has several forms."""

    single: frozenset[str]
    several: tuple[frozenset[str], ...]
    heads: frozenset[str]

    def may_be_among(self, words: Words) -> bool:
        """Whether a text of these words may contain a cue. May be wrongly true, never wrongly false."""
        return (
            not self.single.isdisjoint(words.whole)
            or not self.heads.isdisjoint(words.heads)
            or any(together <= words.whole for together in self.several)
        )


_LEADING_WORDS = re.compile(r"(?:[^\W\d_]+(?:[ '-](?![?*])|$))+")
_LEADING_LETTERS = re.compile(r"[^\W\d_]+(?![?*{])")


def openings(cue: str) -> Openings:
    """Return how the alternatives of a cue begin: with whole words, or else with the first letters of one."""
    phrases, heads = [], set()
    for way in _alternatives(cue):
        if words := _LEADING_WORDS.match(way):
            phrases.append(frozenset(_WORD.findall(words[0].casefold())))
        elif (letters := _LEADING_LETTERS.match(way)) and len(letters[0]) >= HEAD:
            heads.add(letters[0].casefold()[:HEAD])
        else:
            raise ValueError(f"a cue begins with {HEAD} letters or a whole word: {way}")
    return Openings(
        frozenset(word for phrase in phrases if len(phrase) == 1 for word in phrase),
        tuple(phrase for phrase in phrases if len(phrase) > 1),
        frozenset(heads),
    )


def _alternatives(pattern: str) -> list[str]:
    """Split a pattern at its top level; alternatives within its groups are not split."""
    depth, ways = 0, [""]
    for char in pattern:
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "|" and not depth:
            ways.append("")
        else:
            ways[-1] += char
    return ways
