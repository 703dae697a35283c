"""The numbers of a policy: declared once as a frozen dataclass, given by settings, changed by a chat's options.

A field's bounds stand beside its default. A value that does not fit them is refused with what would fit; a name that a
policy does not know is none of its business, because one set of options may serve several policies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from memory.limits import MemoryLimits


@dataclass(frozen=True)
class Numbers:
    """The numbers of a policy. This one has none."""


N = TypeVar("N", bound=Numbers)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a number may be: whole and within two ends, one of some words, or on and off."""

    kind: type[int] | type[bool] | type[str]
    at_least: int = 0
    at_most: int = 10**9
    words: tuple[str, ...] = ()

    def allows(self, value: object) -> bool:
        """Whether `value` (as JSON has it) fits."""
        if type(value) is not self.kind:
            return False
        if isinstance(value, str):
            return value in self.words
        return isinstance(value, bool) or (isinstance(value, int) and self.at_least <= value <= self.at_most)

    @property
    def wanted(self) -> str:
        """What fits, in words."""
        if self.kind is bool:
            return "true or false"
        if self.words:
            return f"one of {', '.join(self.words)}"
        return f"a whole number from {self.at_least} to {self.at_most}"


class BadOption(ValueError):
    """A value that does not fit its number. `name` is the option's, `wanted` says what would fit."""

    def __init__(self, name: str, wanted: str) -> None:
        super().__init__(f"{name} must be {wanted}")
        self.name, self.wanted = name, wanted


def whole(default: int, *, at_least: int = 0, at_most: int = 10**9) -> Any:
    """A field for a whole number."""
    return field(default=default, metadata={"bounds": Bounds(int, at_least, at_most)})


def switch(default: bool) -> Any:
    """A field that is on or off."""
    return field(default=default, metadata={"bounds": Bounds(bool)})


def word(default: str, *others: str) -> Any:
    """A field that is one of some words."""
    return field(default=default, metadata={"bounds": Bounds(str, words=(default, *others))})


def bounds_of(kind: type[Numbers]) -> dict[str, tuple[Any, Bounds]]:
    """The default and the bounds of each number, by its name."""
    return {one.name: (one.default, one.metadata["bounds"]) for one in fields(kind)}


def with_options(numbers: N, options: Mapping[str, object]) -> N:
    """`numbers` with those that `options` names. Raises `BadOption`; unknown names have no effect."""
    known = {name: bounds for name, (_, bounds) in bounds_of(type(numbers)).items() if name in options}
    for name, bounds in known.items():
        if not bounds.allows(options[name]):
            raise BadOption(name, bounds.wanted)
    return replace(numbers, **{name: options[name] for name in known})


def numbers_in(limits: MemoryLimits, name: str, kind: type[N]) -> N:
    """The numbers of the policy `name` as `limits` hold them, or their defaults."""
    found = limits.numbers.get(name)
    return found if isinstance(found, kind) else kind()
