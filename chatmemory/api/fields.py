"""Fields and validators of requests. What they refuse is also documented: drf-spectacular reads types and limits.

JSON has types, so a number is no text here and a text no number. DRF takes one for the other, as forms need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.core.validators import MaxLengthValidator, RegexValidator
from rest_framework import serializers

NOT_BLANK = r"\S"
not_blank = RegexValidator(NOT_BLANK, "This may not be blank.")
"""A validator: something other than white space."""


def no_longer_than(limit: Callable[[], int]) -> MaxLengthValidator:
    """A validator of text: at most so many characters, by a limit that is asked for each time."""
    return MaxLengthValidator(limit, "This is over the limit of %(limit_value)d characters.")


class OneOf:
    """A validator: one of some names, which are asked for each time."""

    def __init__(self, what: str, names: Callable[[], Iterable[str]]) -> None:
        self.what = what
        self.names = names

    def __call__(self, value: str) -> None:
        names = list(self.names())
        if value not in names:
            raise serializers.ValidationError(
                f"There is no such {self.what}; choose one of {', '.join(names)}."
            )


class Text(serializers.CharField):
    """A JSON string."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Flag(serializers.BooleanField):
    """JSON's true or false."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class Whole(serializers.IntegerField):
    """A JSON number without a fraction."""

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid")
        return super().to_internal_value(data)
