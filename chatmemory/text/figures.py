"""Invented figures: numbers and codes of a summary that its sources do not have. Pure.

A number is a run of three and more digits, with or without separators of thousands; a code has capitals and digits, or
letters and at least three digits. A sum, a converted unit and an added year are invented figures, too.
Shorter numbers are not looked at: a summary counts, and rewrites times and dates.
"""

import re
import unicodedata
from collections.abc import Iterable

from chatmemory.text.cleaning import normalized

SHORTEST_NUMBER = 3
SHORTEST_CODE = 4
LONGEST = 40
"""Characters of a figure. A longer one is no figure, and may be cut anywhere where a summary is cut to its length."""

_NUMBER = re.compile(r"\d+(?:[.,'’ \u00a0\u202f]\d{3}(?!\d))*")
_RUN = re.compile(r"\d+")
_SPREAD = re.compile(r"(?<!\d)\d++(?:[-./ ()]{1,2}\d++)+")
"""Digits with other characters in between, as in dates and phone numbers."""
_WORD = re.compile(r"\w++(?:[-/]\w++)*+")
_JOINTS = re.compile(r"[-_/]")
_NO_DIGIT = re.compile(r"\D+")
_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")


class KnownFigures:
    """The figures of some texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        text = _plain("\n".join(texts))
        self._numbers = set(_RUN.findall(text))
        for pattern in (_NUMBER, _SPREAD):
            self._numbers.update(map(_digits, pattern.findall(text)))
        self._packed = _packed(text)

    def new_in(self, text: str) -> list[str]:
        """Return the figures of `text` that are in none of the texts, in order, each once."""
        text = _plain(text)
        numbers = [one for one in _NUMBER.findall(text) if len(one) <= LONGEST and not self._has_number(one)]
        codes = [
            one for one in _WORD.findall(text) if len(one) <= LONGEST and _is_code(one) and not self._has_code(one)
        ]
        alone = (one for one in numbers if not any(one in code for code in codes))
        return list(dict.fromkeys((*codes, *alone)))

    def _has_code(self, code: str) -> bool:
        if _packed(code) in self._packed:
            return True
        parts = _JOINTS.split(code)
        return len(parts) > 1 and not any(
            self.new_in(part) if part.isdigit() else _is_code(part) and _packed(part) not in self._packed
            for part in parts
        )

    def _has_number(self, number: str) -> bool:
        runs = [number] if number.isdigit() else _RUN.findall(number)
        long = [run for run in runs if len(run) >= SHORTEST_NUMBER]
        return _digits(number) in self._numbers or all(run in self._numbers for run in long)


def _plain(text: str) -> str:
    """The text with the digits of all scripts and widths as ASCII."""
    return _FOREIGN_DIGIT.sub(lambda found: str(unicodedata.digit(found[0])), normalized("NFKC", text))


def _digits(number: str) -> str:
    return _NO_DIGIT.sub("", number)


def _packed(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _is_code(word: str) -> bool:
    """Whether a word has letters and digits as codes have, unlike `3rd`, `2-hour` and `10am`."""
    digits = sum(map(str.isdigit, word))
    letters = sum(map(str.isalpha, word))
    if not digits or not letters or digits + letters < SHORTEST_CODE:
        return False
    return word.isupper() or digits >= SHORTEST_NUMBER
