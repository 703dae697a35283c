"""Dates in a folded text, however they are spelled, as terms that meet: `2024-05-03`, `May 3rd, 2024` and `3.5.2024`.

Months have English names or numbers. Where a date can be read in two ways (5/3/2024), both readings are terms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

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
# Each begins with a class of one sign, which the search finds in C (measured: a third of the time); what may not stand
# before it is asked after it.
_ISO = re.compile(r"(\d(?<!\w\d)\d{3})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_SHORT = re.compile(r"(\d(?<![\d./-]\d)\d?)[-/.](\d{1,2})[-/.](\d{4}|\d{2})(?![\d]|[./-]\d)")
_CHINESE = re.compile(r"(?:(\d{4})\s?[年년]\s?)?(\d{1,2})\s?[月월]\s?(\d{1,2})\s?[日号일]")
_NAMED = re.compile(rf"({_NAME})\.? (\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (\d{{4}})\b)?")
_NAMED_AFTER = re.compile(rf"(\d\d?)(?:st|nd|rd|th)?(?: of)? ({_NAME})\b\.?(?:,? (\d{{4}})\b)?")


def date_terms(folded: str) -> list[str]:
    """A term for each day named in `folded`, and one for the day with its year where that is named."""
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
