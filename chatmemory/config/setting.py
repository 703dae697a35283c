"""A setting, declared once as data: it reads the environment, and the page of settings is rendered from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from chatmemory.config.kinds import Boolean, Choice, Fraction, Integer, Kind, environment_value
from memory.policies.numbers import Bounds, N, Numbers, bounds_of, meanings_of

T = TypeVar("T")


@dataclass(slots=True)
class Setting(Generic[T]):
    """The default, kind and meaning of a setting. Its name is that of the class attribute that holds it."""

    default: T
    kind: Kind[T]
    meaning: str
    shown_default: str = ""
    """The default as the page shows it, if that differs from the value."""
    name: str = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def read(self) -> T:
        """Return the value from the environment, or the default. Raise `ImproperlyConfigured` if the value is bad."""
        raw = environment_value(self.name)
        return self.kind.parse(self.name, raw) if raw else self.default


def settings_in(area: type) -> Iterator[Setting[Any]]:
    """The settings that a class declares, in order."""
    return (value for value in vars(area).values() if isinstance(value, Setting))


def policy_settings(policy: str, kind: type[Numbers]) -> dict[str, Setting[Any]]:
    """The settings for a policy's own numbers, by the name of the number."""
    meanings = meanings_of(kind)
    return {
        field: Setting(default, _kind(bounds), meanings[field], name=f"MEMORY_{policy}_{field}".upper())
        for field, (default, bounds) in bounds_of(kind).items()
    }


def read_numbers(policy: str, kind: type[N]) -> N:
    """Read a policy's numbers from the environment."""
    return replace(
        kind(), **{name: setting.read() for name, setting in policy_settings(policy, kind).items()}
    )


def _kind(bounds: Bounds) -> Kind[Any]:
    if bounds.kind is bool:
        return Boolean()
    if bounds.kind is str:
        return Choice(bounds.words)
    if bounds.kind is float:
        return Fraction(bounds.most)
    return Integer(bounds.at_least, bounds.at_most)
