"""Kinds of settings: each parses the text of a setting, and raises an error with a sentence for the operator.

The sentence shows the value, unless the value can contain a password or a key.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

from chatmemory.llm.local_files import LocalModelError, files_of, require_packages

T_co = TypeVar("T_co", covariant=True)
W = TypeVar("W", bound=str)

MAX_MODEL_CHARS = 128
"""The maximum length of a model's name: that of the columns that store it. A test compares them."""
SERVER_EMBEDDINGS = ("MEMORY_EMBEDDINGS_MODEL", "MEMORY_EMBEDDINGS_DIMENSIONS")
UNBOUNDED = 10**9
"""An upper bound that only catches typing errors: the page of settings does not show it."""


class Kind(Protocol[T_co]):
    """What the value of a setting may be."""

    @property
    def allowed(self) -> str:
        """The accepted values, for the page of settings."""

    def parse(self, name: str, raw: str) -> T_co:
        """Parse `raw`. Raise `ImproperlyConfigured` if it is not accepted."""


def environment_value(name: str) -> str:
    """The value in the environment, or an empty string."""
    return os.environ.get(name, "").strip()


def bad_value(name: str, value: object, wanted: str) -> ImproperlyConfigured:
    """Return the error for a bad value. It shows the value, so do not use it for a secret."""
    return ImproperlyConfigured(f"{name} is {value!r}, but must be {wanted}.")


@dataclass(frozen=True, slots=True)
class AnyText:
    """Any text."""

    allowed: str = "text"

    def parse(self, name: str, raw: str) -> str:
        return raw


@dataclass(frozen=True, slots=True)
class Boolean:
    """True or false."""

    allowed: str = "`true` or `false`"

    def parse(self, name: str, raw: str) -> bool:
        if raw.lower() not in ("true", "false", "1", "0", "yes", "no", "on", "off"):
            raise bad_value(name, raw, "true or false")
        return raw.lower() in ("true", "1", "yes", "on")


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number between two bounds."""

    at_least: int = 0
    at_most: int = UNBOUNDED

    @property
    def allowed(self) -> str:
        return _range(self.at_least, self.at_most)

    def parse(self, name: str, raw: str) -> int:
        try:
            number = int(raw)
        except ValueError:
            raise bad_value(name, raw, "a whole number") from None
        if not self.at_least <= number <= self.at_most:
            raise bad_value(name, number, f"a whole number from {self.at_least} to {self.at_most}")
        return number


@dataclass(frozen=True, slots=True)
class Seconds:
    """A number of seconds between two bounds."""

    at_least: float = 0.05
    at_most: float = 86_400

    @property
    def allowed(self) -> str:
        return f"{_range(self.at_least, self.at_most)} s"

    def parse(self, name: str, raw: str) -> float:
        try:
            number = float(raw)
        except ValueError:
            raise bad_value(name, raw, "a number of seconds") from None
        if not self.at_least <= number <= self.at_most:
            raise bad_value(name, raw, f"a number of seconds from {self.at_least} to {self.at_most}")
        return number


@dataclass(frozen=True, slots=True)
class Fraction:
    """A number from 0 to `at_most`."""

    at_most: float = 1.0

    @property
    def allowed(self) -> str:
        return _range(0, self.at_most)

    def parse(self, name: str, raw: str) -> float:
        try:
            number = float(raw)
        except ValueError:
            raise bad_value(name, raw, "a share, such as 0.33") from None
        if not 0 <= number <= self.at_most:
            raise bad_value(name, raw, f"a share from 0 to {self.at_most:g}")
        return number


@dataclass(frozen=True, slots=True)
class Choice(Generic[W]):
    """One of some words."""

    words: tuple[W, ...]

    @property
    def allowed(self) -> str:
        return ", ".join(f"`{word}`" for word in self.words)

    def parse(self, name: str, raw: str) -> W:
        for word in self.words:
            if raw == word:
                return word
        raise bad_value(name, raw, f"one of {', '.join(self.words)}")


@dataclass(frozen=True, slots=True)
class Url:
    """A URL with one of the schemes. Errors do not show it: URLs carry passwords."""

    schemes: tuple[str, ...]

    @property
    def allowed(self) -> str:
        return "URL"

    def parse(self, name: str, raw: str) -> str:
        if raw.startswith(tuple(f"{scheme}:" for scheme in self.schemes)):
            return raw
        starts = " or ".join(f"{scheme}:" for scheme in self.schemes)
        raise ImproperlyConfigured(f"{name} must be a URL that starts with {starts}.")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The base URL of an API. Errors do not show it, because URLs carry passwords."""

    allowed: str = "URL"

    def parse(self, name: str, raw: str) -> str:
        value = Url(("http", "https")).parse(name, raw)
        if not _is_endpoint(value):
            raise ImproperlyConfigured(
                f"{name} must be a URL of printable ASCII with a host, such as http://127.0.0.1:8080/v1."
            )
        parts = urlsplit(value)
        if "@" in parts.netloc or "?" in value or "#" in value:
            raise ImproperlyConfigured(
                f"{name} must have no user, no query and no fragment: paths are appended to it. The key has its "
                "own setting."
            )
        return value


@dataclass(frozen=True, slots=True)
class Secret:
    """A key that is sent in a header. Errors never show it."""

    allowed: str = "printable ASCII"

    def parse(self, name: str, raw: str) -> str:
        if not _is_plain(raw):
            raise ImproperlyConfigured(
                f"{name} must be printable ASCII without spaces; it is not shown here."
            )
        return raw


@dataclass(frozen=True, slots=True)
class ModelName:
    """The name of a model."""

    allowed: str = f"at most {MAX_MODEL_CHARS} characters"

    def parse(self, name: str, raw: str) -> str:
        if not is_name(raw, MAX_MODEL_CHARS):
            raise bad_value(name, raw, name_of(MAX_MODEL_CHARS))
        return raw


@dataclass(frozen=True, slots=True)
class Names:
    """Names separated by commas."""

    allowed: str = "names, separated by commas"

    def parse(self, name: str, raw: str) -> tuple[str, ...]:
        return tuple(one.strip().lower() for one in raw.split(",") if one.strip())


@dataclass(frozen=True, slots=True)
class Aliases:
    """Pairs of names: `other=ours,…`."""

    allowed: str = "`name=variant`, separated by commas"

    def parse(self, name: str, raw: str) -> dict[str, str]:
        pairs = [pair.partition("=") for pair in raw.split(",") if pair.strip()]
        if not all(left.strip() and right.strip() for left, _, right in pairs):
            raise bad_value(name, raw, "pairs of names such as gpt-4.1=arco,*=arco")
        return {left.strip(): right.strip() for left, _, right in pairs}


@dataclass(frozen=True, slots=True)
class EmbeddingsFolder:
    """A folder with an embeddings model. The settings of an upstream embeddings model must not be set, too."""

    allowed: str = "folder"

    def parse(self, name: str, raw: str) -> str:
        if beside := [other for other in SERVER_EMBEDDINGS if environment_value(other)]:
            raise ImproperlyConfigured(
                f"{name} is set, so {beside[0]} must not be: the folder's model makes the vectors."
            )
        try:
            require_packages()
            files_of(Path(raw))
        except LocalModelError as error:
            raise ImproperlyConfigured(f"{name} {error}.") from None
        return raw


def is_name(value: object, length: int) -> bool:
    """Whether a value can be the name of a model or of a variant."""
    return (
        isinstance(value, str) and 0 < len(value) <= length and value.isprintable() and value == value.strip()
    )


def name_of(length: int) -> str:
    """The rule of `is_name`, as part of a sentence."""
    return f"a name of 1 to {length} printable characters"


def database(name: str, value: str) -> dict[str, Any]:
    """Django's settings for the database at a URL. Errors do not show the URL."""
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


def text_or_file(name: str, value: str, home: Path) -> str:
    """The text of a setting, which may stand in a file: `@` and its path. Relative paths start at `home`."""
    if not value.startswith("@"):
        return value
    path = home / Path(value[1:].strip()).expanduser()
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError as exc:
        raise ImproperlyConfigured(
            f"{name} names the file {path}, which cannot be read: {exc.strerror}."
        ) from None
    except UnicodeDecodeError:
        raise ImproperlyConfigured(f"{name} names the file {path}, which is not UTF-8.") from None
    if not text:
        raise ImproperlyConfigured(f"{name} names the file {path}, which is empty.")
    return text


def make_folder(name: str, folder: Path) -> None:
    """Create the folder that a setting names, if it does not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise ImproperlyConfigured(
            f"{name} names the folder {folder}, which cannot be made: {exc.strerror}."
        ) from None


def _range(at_least: float, at_most: float) -> str:
    low, high = (f"{bound:,g}" if bound % 1 else f"{int(bound):,}" for bound in (at_least, at_most))
    return f"{low} or more" if at_most == UNBOUNDED else f"{low} to {high}"


def _is_plain(value: str) -> bool:
    return value.isascii() and value.isprintable() and " " not in value


def _is_endpoint(value: str) -> bool:
    try:
        parts = urlsplit(value)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    return has_host and _is_plain(value) and value.partition(":")[2].startswith("//")
