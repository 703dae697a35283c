"""Fields and validators of requests. drf-spectacular reads their types and limits, so that the schema documents them.

They distinguish JSON's types: a number is not accepted as text, nor text as a number. DRF converts them, as forms
need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.core.validators import MaxLengthValidator, RegexValidator
from rest_framework import serializers

NOT_BLANK = r"\S"
not_blank = RegexValidator(NOT_BLANK, "This may not be blank.")
"""Validate that a text has a character other than white space."""


def no_longer_than(limit: Callable[[], int]) -> MaxLengthValidator:
    """Return a validator of the maximum length in characters. `limit` is called at each validation."""
    return MaxLengthValidator(limit, "This is over the limit of %(limit_value)d characters.")


class OneOf:
    """A validator: the value is one of some names. `names` is called at each validation."""

    def __init__(self, what: str, names: Callable[[], Iterable[str]]) -> None:
        self.what = what
        self.names = names

    def __call__(self, value: str) -> None:
        names = list(self.names())
        if value not in names:
            raise serializers.ValidationError(f"Unknown {self.what}. Choose one of {', '.join(names)}.")


class Text(serializers.CharField):
    """A JSON string; a number or boolean is refused."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Flag(serializers.BooleanField):
    """A JSON boolean; strings and numbers are refused."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class Whole(serializers.IntegerField):
    """A JSON number without a fraction; strings and booleans are refused."""

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid")
        return super().to_internal_value(data)
