"""Fields of requests, and validators for their values; drf-spectacular reads their types and limits.

They tell JSON's types apart: a number is not accepted as text, nor text as a number. DRF converts them, as forms need.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from django.conf import settings
from django.core.validators import MaxLengthValidator, RegexValidator
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework.serializers import (
    BooleanField,
    CharField,
    ChoiceField,
    IntegerField,
    JSONField,
    ListField,
    Serializer,
    ValidationError,
)

from chatmemory.errors import did_you_mean

JSON_DEPTH = 64
"""Maximum nesting of a client's JSON: stored JSON must be written again, by code that recurses."""
MAX_NAMED = 20
"""Maximum number of unknown fields that an error names: a body can have a hundred thousand."""

not_blank = RegexValidator(r"\S", "This may not be blank.")
"""Validate that a text has a character other than white space."""


class MaxChars(MaxLengthValidator):
    """A validator of the maximum length in characters. A function is called at each validation."""

    def __call__(self, value: str) -> None:
        limit = self.limit_value() if callable(self.limit_value) else self.limit_value
        if len(value) > limit:
            raise ValidationError(over_limit(len(value), limit, "characters"))


def over_limit(size: int, limit: int, unit: str) -> str:
    """The error of a value that is too large, with its size and the limit."""
    return f"This has {size:,} {unit}; at most {limit:,} are allowed."


class OneOf:
    """A validator: the value is one of some names. `names` is called at each validation."""

    def __init__(self, what: str, names: Callable[[], Iterable[str]]) -> None:
        self.what = what
        self.names = names

    def __call__(self, value: str) -> None:
        names = list(self.names())
        if value not in names:
            raise ValidationError(f"Unknown {self.what}. Choose one of {', '.join(names)}.")


class Choice(ChoiceField):
    """One of some names, which a request with any other value is told."""

    def __init__(self, choices: Sequence[Any], **kwargs: Any) -> None:
        super().__init__(choices, **kwargs)
        self.error_messages["invalid_choice"] = f"Choose one of {', '.join(self.choices)}."


class Text(CharField):
    """A JSON string; a number or boolean is refused."""

    def to_internal_value(self, data: object) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class LongText(Text):
    """A text that is kept as it is, white space included. It may be blank only with `allow_blank`."""

    def __init__(self, length: MaxChars, **options: Any) -> None:
        checks: list[Any] = [length] if options.get("allow_blank") else [not_blank, length]
        super().__init__(trim_whitespace=False, validators=checks, **options)


class Flag(BooleanField):
    """A JSON boolean; strings and numbers are refused."""

    def to_internal_value(self, data: object) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class Whole(IntegerField):
    """A JSON number without a fraction; strings and booleans are refused."""

    default_error_messages: ClassVar = {
        "min_value": "This must be at least {min_value:,}.",
        "max_value": "This must be at most {max_value:,}.",
    }

    def to_internal_value(self, data: object) -> int:
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid")
        return super().to_internal_value(data)


class ShortList(ListField):
    """A JSON array. One that is too long is refused before its items are read: a body can have tens of thousands."""

    def to_internal_value(self, data: list[object]) -> Any:
        if self.max_length and isinstance(data, list) and len(data) > self.max_length:
            raise ValidationError(over_limit(len(data), self.max_length, "items"))
        return super().to_internal_value(data)


@extend_schema_field(OpenApiTypes.OBJECT)
class ObjectField(JSONField):
    """A client's JSON object of limited size, without NUL and lone surrogates, which the database refuses."""

    def to_internal_value(self, data: object) -> Any:
        if not isinstance(data, dict):
            raise ValidationError("This must be a JSON object.")
        if _is_deeper(data, JSON_DEPTH):
            raise ValidationError(f"This is nested more than {JSON_DEPTH} deep.")
        try:
            text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            size = len(text.encode())
        except UnicodeEncodeError:
            raise ValidationError("This holds a lone surrogate, which is no text.") from None
        except ValueError:
            raise ValidationError("This holds a number that JSON does not have.") from None
        if "\\u0000" in text.replace("\\\\", ""):
            raise ValidationError("This holds a NUL character.")
        if size > (allowed := settings.METADATA_MAX_BYTES):
            raise ValidationError(over_limit(size, allowed, "bytes as JSON"))
        return data


def _is_deeper(value: object, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return inner is not None and (levels == 0 or any(_is_deeper(one, levels - 1) for one in inner))


class Strict(Serializer[Any]):
    """Refuses unknown fields, so that a typo is not silently ignored."""

    def to_internal_value(self, data: object) -> Any:
        if isinstance(data, dict) and (unknown := set(data) - set(self.fields)):
            named = sorted(map(str, unknown))[:MAX_NAMED]
            wrong = {name: [f"Unknown field.{did_you_mean(name, self.fields)}"] for name in named}
            lacking = [name for name, field in self.fields.items() if field.required and name not in data]
            raise ValidationError(wrong | {name: ["This field is required."] for name in lacking})
        return super().to_internal_value(data)
