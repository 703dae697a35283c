"""Reading settings from the environment. A bad value stops the start with a sentence that names it.

Values come from the process environment or from a `.env` file beside `manage.py`; the environment wins.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

from chatmemory.llm.local_files import LocalModelError, files_of, require_packages
from chatmemory.llm.prices import price_of
from chatmemory.llm.protocol import Price, Variant
from memory.policies.numbers import Bounds, N, bounds_of

# What is stored with each message has room for; a test holds these against the columns.
MAX_VARIANT_CHARS = 64
MAX_MODEL_CHARS = 128
MAX_PRICE = Decimal(1_000_000)
"""USD per million tokens."""
SERVER_EMBEDDINGS = ("MEMORY_EMBEDDINGS_MODEL", "MEMORY_EMBEDDINGS_DIMENSIONS")
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


def _number(name: str, bounds: Bounds) -> float | bool | str | None:
    """The value of one number, None if it is not given."""
    if not text(name):
        return None
    if bounds.kind is bool:
        return boolean(name, False)
    if bounds.kind is str:
        return choice(name, bounds.words[0], bounds.words)
    if bounds.kind is float:
        return share(name, 0.0, at_most=bounds.most)
    return integer(name, 0, at_least=bounds.at_least, at_most=bounds.at_most)


def choice(name: str, default: str, choices: Iterable[str]) -> str:
    value = text(name, default)
    allowed = list(choices)
    if value not in allowed:
        raise fail(name, value, f"one of {', '.join(allowed)}")
    return value


def effort(name: str) -> str | None:
    """How much a model is to reason, or None: as the upstream has it."""
    return choice(name, "", EFFORTS) if text(name) else None


def url(name: str, schemes: tuple[str, ...]) -> str:
    """A URL with one of the schemes, or "". Not shown in errors: URLs carry passwords."""
    value = text(name)
    if value and not value.startswith(tuple(f"{scheme}:" for scheme in schemes)):
        raise ImproperlyConfigured(
            f"{name} must be a URL that starts with {' or '.join(f'{s}:' for s in schemes)}."
        )
    return value


def endpoint(name: str) -> str:
    """The base URL of an API, or "". Not shown in errors, as above."""
    value = url(name, ("http", "https"))
    if not value:
        return ""
    wanted = f"{name} must be a URL of printable ASCII with a host, such as http://127.0.0.1:8080/v1."
    try:
        parts = urlsplit(value)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        raise ImproperlyConfigured(wanted) from None
    if not (has_host and _is_plain(value) and value.partition(":")[2].startswith("//")):
        raise ImproperlyConfigured(wanted)
    return value


def secret(name: str) -> str:
    """A key that is sent in a header, or "". Never shown."""
    value = text(name)
    if not _is_plain(value):
        raise ImproperlyConfigured(f"{name} must be printable ASCII without spaces; it is not shown here.")
    return value


def model(name: str, default: str = "") -> str:
    """The name of a model, or ""."""
    value = text(name, default)
    if not is_name(value, MAX_MODEL_CHARS) and value:
        raise fail(name, value, _name_of(MAX_MODEL_CHARS))
    return value


def embeddings_folder(name: str) -> str:
    """A folder with a model to embed with, or ""; what tells of a server's model is not set beside it then."""
    value = text(name)
    if not value:
        return ""
    if beside := [other for other in SERVER_EMBEDDINGS if text(other)]:
        raise ImproperlyConfigured(
            f"{name} is set, so {beside[0]} must not be: the folder's model makes the vectors."
        )
    try:
        require_packages()
        files_of(Path(value))
    except LocalModelError as error:
        raise ImproperlyConfigured(f"{name} {error}.") from None
    return value


def is_name(value: object, length: int) -> bool:
    """Whether that can be the name of a model or of a variant."""
    return (
        isinstance(value, str) and 0 < len(value) <= length and value.isprintable() and value == value.strip()
    )


def _name_of(length: int) -> str:
    return f"a name of 1 to {length} printable characters"


def _is_plain(value: str) -> bool:
    return value.isascii() and value.isprintable() and " " not in value


def database(name: str, value: str) -> dict[str, Any]:
    """Django's settings of the database at that URL, which is not shown in errors either."""
    wrong = ImproperlyConfigured(
        f"{name} cannot be read as scheme://user:password@host:port/name: the port is a number, and in the user and "
        "the password / ? # @ : are written as %2F %3F %23 %40 %3A."
    )
    try:
        found: dict[str, Any] = environ.Env.db_url_config(value)
    except ValueError:
        raise wrong from None
    if "sqlite" in found["ENGINE"]:
        return found
    if not found["NAME"] and "service" not in found.get("OPTIONS", {}):
        raise ImproperlyConfigured(f"{name} must end in the name of a database.")
    if "@" in found["NAME"]:  # a piece of a password
        raise wrong
    return found


def make_folder(name: str, folder: Path) -> None:
    """Make the folder that a setting names, if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise ImproperlyConfigured(
            f"{name} names the folder {folder}, which cannot be made: {exc.strerror}."
        ) from None


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
    if not is_name(name, MAX_VARIANT_CHARS):
        raise fail(where, name, f"called by {_name_of(MAX_VARIANT_CHARS)}")
    if not isinstance(value, dict) or not isinstance(value.get("model"), str) or not value["model"]:
        raise fail(where, value, 'an object with a "model"')
    if not is_name(value["model"], MAX_MODEL_CHARS):
        raise fail(f"{where}.model", value["model"], _name_of(MAX_MODEL_CHARS))
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
    wanted = f'{{"input", "cached", "output"}} in USD per million tokens, each from 0 to {MAX_PRICE:,}'
    if not isinstance(value, dict) or set(value) != {"input", "cached", "output"}:
        raise fail(where, value, wanted)
    try:
        numbers = {key: Decimal(str(number)) for key, number in value.items()}
    except InvalidOperation:
        raise fail(where, value, wanted) from None
    if any(not number.is_finite() or not 0 <= number <= MAX_PRICE for number in numbers.values()):
        raise fail(where, value, wanted)
    return Price(**numbers)
