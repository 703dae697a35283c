"""Parse dates in a folded text into terms that match across spellings: `2024-05-03`, `May 3rd, 2024` and `3.5.2024`.

Months have English names or numbers. If a date can be read in two ways (5/3/2024), both readings are terms. A
question about a day or a month also finds messages by when they were sent.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable, Iterator
from datetime import date
from math import exp, inf
from typing import NamedTuple

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan",
            "february feb",
            "march mar",
            "april apr",
            "may",
            "june jun",
            "july jul",
            "august aug",
            "september sep sept",
            "october oct",
            "november nov",
            "december dec",
        ),
        start=1,
    )
    for name in names.split()
}
_NAME = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DIGIT = re.compile(r"\d")
_NUMERIC = re.compile(r"\d[-/.年月월]\s?\d")
_BEGINNINGS = tuple({name[:3] for name in _MONTHS})
# Each begins with a class of one character, which the search finds in C (measured: a third of the time); what may not
# precede it is tested after it.
_ISO = re.compile(r"(\d(?<!\w\d)\d{3})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_SHORT = re.compile(r"(\d(?<![\d./-]\d)\d?)[-/.](\d{1,2})[-/.](\d{4}|\d{2})(?![\d]|[./-]\d)")
_CHINESE = re.compile(r"(?:(\d{4})\s?[年년]\s?)?(\d{1,2})\s?[月월]\s?(\d{1,2})\s?[日号일]")
_NAMED = re.compile(rf"({_NAME})\.? (\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (\d{{4}})\b)?")
_NAMED_AFTER = re.compile(rf"(\d\d?)(?:st|nd|rd|th)?(?: of)? ({_NAME})\b\.?(?:,? (\d{{4}})\b)?")
_MONTH = re.compile(
    rf"\b(?:in|of|during|since|until|by|last|this|early|mid|late) ({_NAME})\b(?:,? (?:of )?(\d{{4}})\b)?(?! \d)"
    rf"|\b({_NAME}),? (\d{{4}})\b"
)
"""Months without a day. May and march are months only if a word before them or a year after them says so."""


class Time(NamedTuple):
    """A day or a month that is named. `year` 0: of any year; `day` 0: the whole month."""

    year: int
    month: int
    day: int = 0

    def span(self, year: int) -> tuple[date, date] | None:
        """Its first and its last day in that year; None if there is no such day."""
        try:
            first = date(year, self.month, self.day or 1)
        except ValueError:
            return None
        return first, first if self.day else first.replace(day=monthrange(year, self.month)[1])


def times(folded: str) -> tuple[Time, ...]:
    """The days named in `folded`; if there are none, the months."""
    if days := tuple(one for day in _days(folded) if (one := Time(*day)).span(one.year or _LEAP)):
        return days
    if not any(beginning in folded for beginning in _BEGINNINGS):
        return ()
    found = _MONTH.findall(folded)
    return tuple(Time(int(one or other or 0), _MONTHS[name or again]) for name, one, again, other in found)


_LEAP = 2024
"""A year that has every day."""


def closeness(said: str, asked: Iterable[Time], within: float) -> float:
    """How close the day `said` (2024-05-03) is to the nearest of `asked`, from 0 to 1.

    It is 1 on that day or in that month, and about a third `within` days before or after.
    """
    day = date.fromisoformat(said)
    return exp(-min([_days_between(day, one) for one in asked]) / within)


def _days_between(day: date, asked: Time) -> float:
    """Days from `day` to the day or month `asked`, 0 within it; if that has no year, to the nearest one."""
    years = (asked.year,) if asked.year else (day.year - 1, day.year, day.year + 1)
    spans = [span for year in years if (span := asked.span(year))]
    return min([max((first - day).days, (day - last).days, 0) for first, last in spans], default=inf)


def date_terms(folded: str) -> list[str]:
    """A term for each day named in `folded`, and another one with its year if the year is named."""
    if not _DIGIT.search(folded):
        return []
    found = [day for day in _days(folded) if 1 <= day[1] <= 12 and 1 <= day[2] <= 31]
    known = [f"@{month:02}-{day:02}" for _, month, day in found]
    return list(dict.fromkeys([*known, *(f"@{y}-{m:02}-{d:02}" for y, m, d in found if y)]))


def _days(folded: str) -> Iterator[tuple[int, int, int]]:
    if _NUMERIC.search(folded):
        yield from _in_numbers(folded)
    if any(beginning in folded for beginning in _BEGINNINGS):
        for name, day, year in _NAMED.findall(folded):
            yield int(year or 0), _MONTHS[name], int(day)
        for day, name, year in _NAMED_AFTER.findall(folded):
            yield int(year or 0), _MONTHS[name], int(day)


def _in_numbers(folded: str) -> Iterator[tuple[int, int, int]]:
    for year, month, day in _ISO.findall(folded):
        yield int(year), int(month), int(day)
    for one, other, year in _SHORT.findall(folded):
        whole = int(year) if len(year) == 4 else 2000 + int(year)
        yield whole, int(one), int(other)
        yield whole, int(other), int(one)
    if "月" in folded or "월" in folded:
        for year, month, day in _CHINESE.findall(folded):
            yield int(year or 0), int(month), int(day)
