"""Invented figures: numbers and codes of a summary that its sources do not have. Pure.

A number is a run of three and more digits, with or without separators of thousands; a code has capitals and digits, or
letters and at least three digits, except for a number with its unit. A number is known however it is grouped, and as
thousands or millions of another. A sum, a converted unit and an added year are invented figures, too.
Shorter numbers are not looked at: a summary counts, and rewrites times and dates.
"""

import re
import unicodedata
from collections.abc import Iterable, Set

from chatmemory.text.cleaning import normalized

SHORTEST_NUMBER = 3
SHORTEST_CODE = 4
LONGEST = 40
"""Characters of a figure. A longer one is no figure, and may be cut anywhere where a summary is cut to its length."""

_NUMBER = re.compile(r"\d{1,2}(?:,\d\d){1,5},\d{3}(?!\d)|\d+(?:[.,'’٬ \u00a0\u202f]\d{3}(?!\d))*")
"""The first form is that of India."""
_RUN = re.compile(r"\d+")
_SPREAD = re.compile(r"(?<!\d)\d++(?:[-‐–./: ()]{1,2}\d++)+")
"""Digits with other characters in between, as in dates and phone numbers."""
_ZEROS = {"k": 3, "thousand": 3, "m": 6, "mio": 6, "million": 6, "b": 9, "bn": 9, "mrd": 9, "billion": 9}
_ZEROS |= {"lakh": 5, "crore": 7, "万": 4, "亿": 8}
_SCALED = re.compile(rf"(\d{{1,6}})(?:[.,](\d{{1,3}}))?\s?({'|'.join(_ZEROS)})s?(?![a-z])", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9_]++(?:[-/][A-Za-z0-9_]++)*+")
_UNIT = re.compile(r"[a-z]{0,4}\d+(?:(?=[A-Z]*[a-z])[A-Za-z]{1,4}\d?|[KMGT]B)?|(?:USD|EUR|GBP|CHF)\d+")
"""One number with a unit or the like, as in `500ml`, `v2024` and `16GB`."""
_JOINTS = re.compile(r"[-_/]|(?<=\d)T(?=\d)")
_NO_DIGIT = re.compile(r"\D+")
_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")


class KnownFigures:
    """The figures of some texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        text = _plain("\n".join(texts))
        self._numbers = set(_RUN.findall(text))
        for pattern in (_NUMBER, _SPREAD):
            self._numbers.update(map(_digits, pattern.findall(text)))
        self._numbers.update(one[:-zeros] for one in [*self._numbers] for zeros in (3, 6) if one.endswith("0" * zeros))
        for whole, part, scale in _SCALED.findall(text):
            self._numbers.add(whole + part.ljust(_ZEROS[scale.lower()], "0"))
        self._packed = _packed(text)

    def new_in(self, text: str) -> list[str]:
        """Return the figures of `text` that are in none of the texts, in order, each once."""
        text = _plain(text)
        words = [one for one in _WORD.findall(text) if len(one) <= LONGEST and _is_code(one)]
        codes = [one for one in words if not self._has_code(one)]
        grouped = [one for one in (*words, *_SPREAD.findall(text)) if _digits(one) in self._numbers]
        runs = {run for one in grouped for run in _RUN.findall(one)}
        numbers = [one for one in _NUMBER.findall(text) if len(one) <= LONGEST and not self._has_number(one, runs)]
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

    def _has_number(self, number: str, grouped: Set[str]) -> bool:
        """Whether a number is known, or all of several beside one another: `12,500` is one, `12 500` may be two."""

        def is_known(digits: str) -> bool:
            return digits in self._numbers or digits in grouped

        def is_list(piece: str) -> bool:
            return all(len(run) >= SHORTEST_NUMBER and is_known(run) for run in _RUN.findall(piece))

        pieces = [one for one in number.split() if len(one) >= SHORTEST_NUMBER]
        return is_known(_digits(number)) or all(is_known(_digits(one)) or is_list(one) for one in pieces)


def _plain(text: str) -> str:
    """The text with the digits of all scripts and widths as ASCII."""
    text = normalized("NFKC", text).replace("\ufe0f\u20e3", "")  # of keycaps
    return _FOREIGN_DIGIT.sub(lambda found: str(unicodedata.digit(found[0])), text)


def _digits(number: str) -> str:
    return _NO_DIGIT.sub("", number)


def _packed(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _is_code(word: str) -> bool:
    """Whether a word has letters and digits as codes have, unlike `3rd`, `2-hour` and `10am`."""
    digits = sum(map(str.isdigit, word))
    letters = sum(map(str.isalpha, word))
    if not digits or not letters or digits + letters < SHORTEST_CODE or _UNIT.fullmatch(word):
        return False
    return word.isupper() or digits >= SHORTEST_NUMBER
