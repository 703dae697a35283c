"""Whether a text still holds what was said: in any form, or to the letter.

As whole words: an "11" is not held by "2011". Pure; where the texts come from is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from memory.spotting import CJK


class Haystack:
    """A text to look in, prepared once for many looks."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._folded = _folded(text)

    def has(self, forms: Iterable[str]) -> bool:
        """Whether one of `forms` is there, case and white space aside."""
        return any(_is_in(_folded(form), self._folded) for form in forms)

    def has_exactly(self, forms: Iterable[str]) -> bool:
        """Whether one of `forms` is there to the letter."""
        return any(_is_in(form, self._text) for form in forms)


def as_written(forms: Sequence[str], text: str) -> tuple[str, ...]:
    """`forms` as `text` writes them, case aside, each spelling once; `forms` themselves where it has none of them."""
    any_form = "|".join(re.escape(form) for form in forms if form)
    found = re.findall(rf"(?<!\w)(?:{any_form})(?!\w)", text, re.IGNORECASE) if any_form else []
    return tuple(dict.fromkeys(found)) or tuple(forms)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _is_in(phrase: str, text: str) -> bool:
    at = text.find(phrase) if phrase else -1
    while at >= 0:
        end = at + len(phrase)
        if not _runs_on(text[at - 1 : at], phrase[0]) and not _runs_on(phrase[-1], text[end : end + 1]):
            return True
        at = text.find(phrase, at + 1)
    return False


def _runs_on(before: str, after: str) -> bool:
    """Whether two neighbouring characters are of one word. Scripts without spaces have no such thing."""
    return before.isalnum() and after.isalnum() and not CJK.match(before) and not CJK.match(after)
