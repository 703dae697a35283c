"""Fields of a JSON object as typed values, or a `FormatError` that names the field.

This module knows JSON types and the limits of storage, but not what a conversation is. A missing field and a null
field are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal

from conversations.interchange.values import FormatError

MAX_INTEGER = 2**31 - 1
"""Largest number of a database's integer column."""

MAX_COST = 10**7
"""Upper bound of a cost in USD, exclusive: what the cost column can hold."""

COST_STEP = Decimal("1E-9")


def text_field(raw: Mapping[str, object], name: str, max_length: int | None = None) -> str:
    """Return a string; "" if there is none."""
    value = raw.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise FormatError(f"{name} is not a string")
    if max_length is not None and len(value) > max_length:
        raise FormatError(f"{name} is longer than {max_length} characters")
    return value


def object_field(raw: Mapping[str, object], name: str) -> dict[str, object] | None:
    """Return a JSON object, or None."""
    value = raw.get(name)
    if value is not None and not isinstance(value, dict):
        raise FormatError(f"{name} is not an object")
    return value


def flag_field(raw: Mapping[str, object], name: str) -> bool:
    """Return a boolean; False if there is none."""
    value = raw.get(name)
    if value is not None and not isinstance(value, bool):
        raise FormatError(f"{name} is neither true nor false")
    return bool(value)


def count_field(raw: Mapping[str, object], name: str) -> int:
    """Return a whole number that a database's integer column can hold; 0 if there is none."""
    return _whole(raw, name, 0) or 0


def place_field(raw: Mapping[str, object], name: str) -> int | None:
    """Return a message's number in its chat, from 1, or None."""
    return _whole(raw, name, 1)


def _whole(raw: Mapping[str, object], name: str, least: int) -> int | None:
    value = raw.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_INTEGER:
        raise FormatError(f"{name} is not a whole number from {least} to {MAX_INTEGER}")
    return value


def cost_field(raw: Mapping[str, object], name: str) -> Decimal | None:
    """Return USD with nine decimal places, or None."""
    value = raw.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < MAX_COST:
        raise FormatError(f"{name} is not a number from 0 to {MAX_COST}")
    return Decimal(str(value)).quantize(COST_STEP)


def time_field(raw: Mapping[str, object], name: str) -> datetime | None:
    """Return a time in UTC, or None; from ISO 8601 (UTC if no time zone is given) or seconds since 1970."""
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
