"""Fields of a JSON object as typed values, or a `FormatError` that names the field.

Knows JSON types and the limits of storage; refuses to know what a conversation is. A field that is missing
and a field that is null are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal

from conversations.interchange.values import FormatError

MAX_INTEGER = 2**31 - 1
"""Largest number of a database's integer column."""

MAX_COST = 10**7
"""USD; what the cost column can hold lies below."""

COST_STEP = Decimal("1E-9")


def text_field(raw: Mapping[str, object], name: str, max_length: int | None = None) -> str:
    """A string; "" where there is none."""
    value = raw.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise FormatError(f"{name} is not a string")
    if max_length is not None and len(value) > max_length:
        raise FormatError(f"{name} is longer than {max_length} characters")
    return value


def object_field(raw: Mapping[str, object], name: str) -> dict[str, object] | None:
    """A JSON object, or None."""
    value = raw.get(name)
    if value is not None and not isinstance(value, dict):
        raise FormatError(f"{name} is not an object")
    return value


def flag_field(raw: Mapping[str, object], name: str) -> bool:
    """True or false; false where there is none."""
    value = raw.get(name)
    if value is not None and not isinstance(value, bool):
        raise FormatError(f"{name} is neither true nor false")
    return bool(value)


def count_field(raw: Mapping[str, object], name: str) -> int:
    """A whole number that a database's integer column can hold; 0 where there is none."""
    return _whole(raw, name, 0) or 0


def place_field(raw: Mapping[str, object], name: str) -> int | None:
    """A message's number in its chat, from 1, or None."""
    return _whole(raw, name, 1)


def _whole(raw: Mapping[str, object], name: str, least: int) -> int | None:
    value = raw.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_INTEGER:
        raise FormatError(f"{name} is not a whole number from {least} to {MAX_INTEGER}")
    return value


def cost_field(raw: Mapping[str, object], name: str) -> Decimal | None:
    """USD to nine places, or None."""
    value = raw.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < MAX_COST:
        raise FormatError(f"{name} is not a number from 0 to {MAX_COST}")
    return Decimal(str(value)).quantize(COST_STEP)


def time_field(raw: Mapping[str, object], name: str) -> datetime | None:
    """A time in UTC, or None; from ISO 8601 (UTC where no zone is named) or seconds since 1970."""
    value = raw.get(name)
    if value is None:
        return None
    try:
        if isinstance(value, str):
            time = datetime.fromisoformat(value)
            return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise FormatError(f"{name} is not a time")
