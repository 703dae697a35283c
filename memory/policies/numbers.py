"""The numbers of a policy: declared once as a frozen dataclass, set by settings, overridden by a chat's options.

A field declares its bounds with its default. A value out of bounds is refused with a message that states them. The
numbers of memory as a whole, and which numbers a chat may choose, are in `memory.policies.options`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from memory.limits import MemoryLimits


@dataclass(frozen=True)
class Numbers:
    """The numbers of a policy. This base class has none."""


N = TypeVar("N", bound=Numbers)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The valid values of a number: a range of whole numbers, a share, one of some words, a text, or on and off."""

    kind: type[int] | type[float] | type[bool] | type[str]
    at_least: int = 0
    at_most: int = 10**9
    words: tuple[str, ...] = ()
    most: float = 1.0
    """Upper bound of a share; the lower one is 0."""
    max_chars: int = 0
    """For any text, which has no `words`: its longest length."""

    def allows(self, value: object) -> bool:
        """Whether `value`, as parsed from JSON, is valid."""
        if isinstance(value, bool) or self.kind is bool:
            return isinstance(value, bool) and self.kind is bool
        if self.kind is str and not self.words:
            return isinstance(value, str) and len(value) <= self.max_chars
        if self.kind is str:
            return value in self.words
        if self.kind is float:
            return isinstance(value, int | float) and 0 <= value <= self.most
        return isinstance(value, int) and self.at_least <= value <= self.at_most

    @property
    def wanted(self) -> str:
        """The valid values in words, for an error message."""
        if self.kind is bool:
            return "true or false"
        if self.kind is str and not self.words:
            return f"a text of at most {self.max_chars} characters"
        if self.words:
            return f"one of {', '.join(self.words)}"
        if self.kind is float:
            return f"a share from 0 to {self.most:g}"
        return f"a whole number from {self.at_least} to {self.at_most}"


def whole(default: int, meaning: str, *, at_least: int = 0, at_most: int = 10**9) -> Any:
    """Declare a field for a whole number. `meaning` is shown on the page of settings."""
    return field(default=default, metadata={"bounds": Bounds(int, at_least, at_most), "meaning": meaning})


def switch(default: bool, meaning: str) -> Any:
    """Declare a field that is on or off."""
    return field(default=default, metadata={"bounds": Bounds(bool), "meaning": meaning})


def word(default: str, *others: str, meaning: str) -> Any:
    """Declare a field whose value is one of some words."""
    return field(
        default=default, metadata={"bounds": Bounds(str, words=(default, *others)), "meaning": meaning}
    )


def bounds_of(kind: type[Numbers]) -> dict[str, tuple[Any, Bounds]]:
    """The default and the bounds of each number, by its name."""
    return {one.name: (one.default, one.metadata["bounds"]) for one in fields(kind)}


def meanings_of(kind: type[Numbers]) -> dict[str, str]:
    """The meaning of each number, by its name."""
    return {one.name: one.metadata["meaning"] for one in fields(kind)}


def numbers_in(limits: MemoryLimits, name: str, kind: type[N]) -> N:
    """The numbers of the policy `name` in `limits`, or their defaults."""
    found = limits.numbers.get(name)
    return found if isinstance(found, kind) else kind()
