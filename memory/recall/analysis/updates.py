"""Detect updates: whether a text states again, with another value, what an earlier text stated. Pure.

Precision takes precedence over recall, because a model will not believe what is marked as updated. The later text
must say itself that something changed ("now 10 cards", "moved to April 22"); the earlier one must have a value of the
same kind, with much the same words around it. Shares (80 %) are left out: scores of different things are worded
alike. Works in English.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from memory.recall.analysis.dates import date_terms
from memory.recall.analysis.terms import fold, terms

ALIKE = 5
"""Words that the surroundings of both values must share; those on the same side of both count twice."""
REACH, REACH_CHARS = 10, 120
"""Words on either side of a value that describe it, and characters that are read for them."""

_MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    "|nov(?:ember)?|dec(?:ember)?)"
)
_VALUE = (
    rf"(?P<date>\b{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?\b|\b\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTH}\b"
    r"|\b\d{4}-\d\d-\d\d\b)"
    r"|(?P<time>\b\d{1,2}:\d\d(?: ?[ap]m\b)?|\b\d{1,2} ?[ap]m\b)"
    r"|(?P<money>[$€£¥] ?\d(?:[\d.]*\d)?)"
    r"|(?P<number>(?<![\w.,/@#-])\d(?:[\d.]*\d)?)(?![\d/:_@%-]| (?:%|percent\b))"
)
_CHANGES_TO = (
    "(?:reschedul|postpon|extend|increas|improv|reduc|chang|updat|adjust|shift|delay|mov|rais)(?:e|ed|ing)?"
    "|push(?:ed|ing)?(?: back)?|dropp?(?:ed|ing)?|lower(?:ed|ing)?|grew|grown?|rose|cut"
)
_NEW = (
    r"now|reached|total of|(?:up|down) to|new(?: \w+){1,4} (?:of|is|for)"
    rf"|(?:{_CHANGES_TO})(?: [^\s,;]+){{0,8}}? (?:to|through|until|till|below|above)"
)
_HINTS = (
    *(
        "now",
        "reached",
        "total of",
        "up to",
        "down to",
        "new ",
        "reschedul",
        "postpon",
        "extend",
        "increas",
        "improv",
    ),
    *(
        "reduc",
        "chang",
        "updat",
        "adjust",
        "shift",
        "delay",
        "mov",
        "rais",
        "push",
        "drop",
        "lower",
        "grew",
        "grow",
    ),
    *("rose", "cut"),
)
"""At least one of these is in any text that says that something changed: a quick test."""
_BETWEEN = r"(?: (?!and\b|or\b|to\b|from\b)[a-z]+){0,4}? "
_ANY_VALUE = re.compile(_VALUE)
_NEW_VALUE = re.compile(rf"\b(?:{_NEW}){_BETWEEN}(?:{_VALUE})")
_WISHED = re.compile(
    r"\b(?:under|below|above|over|within|at (?:least|most)|up to|(?:less|more|fewer) than|target\w*|aim\w*"
    r"|maximum|minimum|limit|goals?(?: \w+){0,4}"
    r"|(?:try|trying|want|need|plan|planning|hope|hoping|have) to(?: \w+)?)(?: \w+)? ?$"
)
"""Precedes a value that somebody wishes for, as opposed to one that is the case."""
_CODE = re.compile(r"(?:```|~~~).*?(?:```|~~~|\Z)", re.DOTALL)
_DIGIT = re.compile(r"\d")
_END = re.compile(r"[.!?](?=\s)|\n")
_WORD = re.compile(r"[^\s,;:()]+")
_NEXT = re.compile(r" ?[^\W\d_]+")
_SAYS_LITTLE = frozenset(
    terms(
        "already app complete completed completing consider considering day days due enough feel get getting help "
        "include including kinda know like look looking make meet meeting month months next last plan planning project "
        "really second first third one two three start started starting sure think today tomorrow yesterday try trying "
        "understand use used using want need week weeks wonder wondering work working worried worry year years time "
        "change changed extend extended improve improved increase increased move moved new recent recently reduce "
        "reduced update updated"
    )
)
"""Terms that occur around values of any kind, including those that say that something changes."""


@dataclass(frozen=True)
class Value:
    """A value in a folded text: its kind, normalized form and position."""

    kind: str
    worth: str
    text: str
    start: int
    end: int

    @cached_property
    def about(self) -> tuple[frozenset[str], frozenset[str]]:
        """The terms before and after it in its sentence."""
        before = _END.split(self._before)[-1]
        after = _END.split(self.text[self.end : self.end + REACH_CHARS], maxsplit=1)[0]
        return _said(_WORD.findall(before)[-REACH:]), _said(_WORD.findall(after)[:REACH])

    @cached_property
    def unit(self) -> str:
        """What a number counts: the term of the word right after it."""
        word = _NEXT.match(self.text, self.end)
        return "".join(terms(word[0])[:1]) if word else ""

    @cached_property
    def is_wished(self) -> bool:
        """Whether it is what somebody wishes for."""
        return _WISHED.search(self._before) is not None

    @property
    def _before(self) -> str:
        return self.text[max(0, self.start - REACH_CHARS) : self.start]

    def updates(self, earlier: Value) -> bool:
        """Whether this is the new value of what was `earlier`."""
        if self.kind != earlier.kind or self.worth == earlier.worth:
            return False
        if self.kind == "number" and not self.unit == earlier.unit != "":
            return False
        return self._alike(earlier) >= ALIKE and not earlier.is_wished

    def _alike(self, other: Value) -> int:
        (before, after), (before_it, after_it) = self.about, other.about
        anywhere = (before | after) & (before_it | after_it)
        same_side = before & before_it | after & after_it
        return len(anywhere - {self.unit}) + len(same_side - {self.unit})


def may_update(text: str) -> bool:
    """Whether `text` can contain new values at all: a quick test."""
    if _DIGIT.search(text) is None:
        return False
    text = text.lower()
    return any(hint in text for hint in _HINTS)


def read(text: str) -> str:
    """Prepare `text` for `values` and `new_values`: folded, without code."""
    return fold(_CODE.sub("\n", text))


def values(text: str) -> Iterator[Value]:
    """Yield the values in a text prepared by `read`."""
    return _found(_ANY_VALUE, text)


def new_values(text: str) -> Iterator[Value]:
    """Yield the values that, according to the text, replace others."""
    return _found(_NEW_VALUE, text)


def _found(pattern: re.Pattern[str], text: str) -> Iterator[Value]:
    for found in pattern.finditer(text):
        kind = found.lastgroup or ""
        worth = date_terms(found[kind])[:1] if kind == "date" else [found[kind].replace(" ", "")]
        if worth:
            yield Value(kind, worth[0], text, *found.span(kind))


def _said(words: Sequence[str]) -> frozenset[str]:
    return frozenset(term for term in terms(" ".join(words)) if term.isalpha()) - _SAYS_LITTLE
