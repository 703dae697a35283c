"""Reading settings from the environment. A bad value stops the start with a sentence that names it.

Values come from the process environment or from a `.env` file beside `manage.py`; the environment wins.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from chatmemory.llm.prices import price_of
from chatmemory.llm.protocol import Price, Variant
from memory.policies.numbers import Bounds, N, bounds_of

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")


def fail(name: str, value: object, wanted: str) -> ImproperlyConfigured:
    """The error for a bad value, to be raised. The value is shown: no secret is read by these helpers."""
    return ImproperlyConfigured(f"{name} is {value!r}, but must be {wanted}.")


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def boolean(name: str, default: bool) -> bool:
    value = text(name).lower()
    if not value:
        return default
    if value not in ("true", "false", "1", "0", "yes", "no", "on", "off"):
        raise fail(name, os.environ[name], "true or false")
    return value in ("true", "1", "yes", "on")


def integer(name: str, default: int, *, at_least: int = 0, at_most: int = 10**9) -> int:
    value = text(name)
    try:
        number = int(value) if value else default
    except ValueError:
        raise fail(name, value, "a whole number") from None
    if not at_least <= number <= at_most:
        raise fail(name, number, f"a whole number from {at_least} to {at_most}")
    return number


def seconds(name: str, default: float, *, at_least: float = 0.05, at_most: float = 86_400) -> float:
    value = text(name)
    try:
        number = float(value) if value else default
    except ValueError:
        raise fail(name, value, "a number of seconds") from None
    if not at_least <= number <= at_most:
        raise fail(name, value, f"a number of seconds from {at_least} to {at_most}")
    return number


def share(name: str, default: float, *, at_most: float = 1.0) -> float:
    value = text(name)
    try:
        number = float(value) if value else default
    except ValueError:
        raise fail(name, value, "a share, such as 0.33") from None
    if not 0 <= number <= at_most:
        raise fail(name, value, f"a share from 0 to {at_most:g}")
    return number


def numbers(prefix: str, kind: type[N]) -> N:
    """A policy's numbers, each from the variable of its name behind `prefix`."""
    given = {
        field: _number(f"{prefix}{field.upper()}", bounds) for field, (_, bounds) in bounds_of(kind).items()
    }
    return replace(kind(), **{field: value for field, value in given.items() if value is not None})


def _number(name: str, bounds: Bounds) -> int | bool | str | None:
    """The value of one number, None if it is not given."""
    if not text(name):
        return None
    if bounds.kind is bool:
        return boolean(name, False)
    if bounds.kind is str:
        return choice(name, bounds.words[0], bounds.words)
    return integer(name, 0, at_least=bounds.at_least, at_most=bounds.at_most)


def choice(name: str, default: str, choices: Iterable[str]) -> str:
    value = text(name, default)
    allowed = list(choices)
    if value not in allowed:
        raise fail(name, value, f"one of {', '.join(allowed)}")
    return value


def url(name: str, schemes: tuple[str, ...]) -> str:
    """A URL with one of the schemes, or "". Not shown in errors: URLs carry passwords."""
    value = text(name)
    if value and not value.startswith(tuple(f"{scheme}:" for scheme in schemes)):
        raise ImproperlyConfigured(
            f"{name} must be a URL that starts with {' or '.join(f'{s}:' for s in schemes)}."
        )
    return value


def variants(name: str, default: dict[str, dict[str, Any]]) -> dict[str, Variant]:
    """A JSON object from public name to `{"model", "reasoning_effort"?, "max_output_tokens"?, "price"?}`."""
    raw = text(name)
    try:
        table = json.loads(raw) if raw else default
    except ValueError:
        raise fail(name, raw, "a JSON object from names to model variants") from None
    if not isinstance(table, dict) or not table:
        raise fail(name, raw, "a JSON object from names to model variants, with at least one")
    return {key: _variant(f"{name}[{key!r}]", key, value) for key, value in table.items()}


def _variant(where: str, name: str, value: object) -> Variant:
    known = {"model", "reasoning_effort", "max_output_tokens", "price"}
    if not isinstance(value, dict) or not isinstance(value.get("model"), str) or not value["model"]:
        raise fail(where, value, 'an object with a "model"')
    if unknown := set(value) - known:
        raise fail(where, sorted(unknown), f"made of {', '.join(sorted(known))} alone")
    effort, limit = value.get("reasoning_effort"), value.get("max_output_tokens")
    if effort is not None and effort not in EFFORTS:
        raise fail(f"{where}.reasoning_effort", effort, f"one of {', '.join(EFFORTS)}")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise fail(f"{where}.max_output_tokens", limit, "a whole number of tokens, at least 1")
    price = _price(f"{where}.price", value["price"]) if "price" in value else price_of(value["model"])
    return Variant(name, value["model"], effort, limit, price)


def _price(where: str, value: object) -> Price:
    wanted = '{"input", "cached", "output"} in USD per million tokens'
    if not isinstance(value, dict) or set(value) != {"input", "cached", "output"}:
        raise fail(where, value, wanted)
    try:
        numbers = {key: Decimal(str(number)) for key, number in value.items()}
    except InvalidOperation:
        raise fail(where, value, wanted) from None
    if any(not number.is_finite() or number < 0 for number in numbers.values()):
        raise fail(where, value, wanted)
    return Price(**numbers)
