"""Choices of dates for lists of the admin: years, then the months of a year, then the days of a month.

Django's own tag reads every row to offer only days that have some. This one offers all dates between the first row
and the last: two lookups in the index of the date, however many rows there are.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any, NamedTuple

from django import template
from django.contrib.admin.views.main import ChangeList
from django.utils import timezone
from django.utils.formats import date_format

register = template.Library()

UNITS = ("year", "month", "day")


class DateChoice(NamedTuple):
    """A span of dates to filter a list by, or to widen its filter to; without a link, the current one."""

    title: str
    link: str = ""


@register.inclusion_tag("admin/dates.html")
def date_choices(cl: ChangeList) -> dict[str, Any]:
    """The choices for a list whose admin has a `date_hierarchy`; none if all rows are of one day."""
    field = str(cl.date_hierarchy)
    days = cl.model._default_manager.order_by(field).values_list(field, flat=True)
    first, last = _day(days.first()), _day(days.last())
    if first is None or last is None or first == last:
        return {}
    chosen = _chosen(cl, field)
    unit = _unit(chosen, first, last)
    return {"choices": list(_choices(cl, field, chosen, unit, first, last)), "back": _back(cl, field, chosen)}


def _day(moment: datetime | None) -> date | None:
    return timezone.localtime(moment).date() if moment else None


def _chosen(cl: ChangeList, field: str) -> dict[str, int]:
    """The date that the list is filtered by, as numbers. Django has already refused invalid ones."""
    asked = {unit: str(cl.params.get(f"{field}__{unit}", "")) for unit in UNITS}
    chosen: dict[str, int] = {}
    for unit, value in asked.items():
        if not value.isdecimal():
            break
        chosen[unit] = int(value)
    return chosen


def _unit(chosen: dict[str, int], first: date, last: date) -> str:
    """The unit of the choices. A unit with only one choice is skipped."""
    if "month" in chosen or (not chosen and first.replace(day=1) == last.replace(day=1)):
        return "day"
    return "month" if "year" in chosen or first.year == last.year else "year"


def _choices(
    cl: ChangeList, field: str, chosen: dict[str, int], unit: str, first: date, last: date
) -> Iterator[DateChoice]:
    if "day" in chosen:
        yield DateChoice(date_format(date(**chosen), "j F Y"))
        return
    year, month = chosen.get("year", first.year), chosen.get("month", first.month)
    if unit == "year":
        for one in range(first.year, last.year + 1):
            yield DateChoice(str(one), _link(cl, field, year=one))
    elif unit == "month":
        for one in range(1, 13):
            if first.replace(day=1) <= date(year, one, 1) <= last:
                title = date_format(date(year, one, 1), "F Y")
                yield DateChoice(title, _link(cl, field, year=year, month=one))
    else:
        for one in range(1, monthrange(year, month)[1] + 1):
            if first <= date(year, month, one) <= last:
                title = date_format(date(year, month, one), "j F")
                yield DateChoice(title, _link(cl, field, year=year, month=month, day=one))


def _back(cl: ChangeList, field: str, chosen: dict[str, int]) -> DateChoice | None:
    if "day" in chosen:
        title = date_format(date(**{**chosen, "day": 1}), "F Y")
        return DateChoice(title, _link(cl, field, year=chosen["year"], month=chosen["month"]))
    if "month" in chosen:
        return DateChoice(str(chosen["year"]), _link(cl, field, year=chosen["year"]))
    return DateChoice("All dates", _link(cl, field)) if chosen else None


def _link(cl: ChangeList, field: str, **to: int) -> str:
    return str(cl.get_query_string({f"{field}__{unit}": value for unit, value in to.items()}, [f"{field}__"]))
