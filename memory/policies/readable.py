"""Lay out what a policy remembers for people: the parts that they can edit, without markup for the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from memory.limits import MemoryLimits
from memory.policies.edit_form import EditField, lines_of
from memory.policies.protocol import Policy, State

Shape = Literal["text", "list", "table"]


@dataclass(frozen=True, slots=True)
class ReadableEntry:
    """A text with its name; `name` is "" if it has none."""

    name: str
    text: str

    @property
    def line(self) -> str:
        return f"{self.name}: {self.text}" if self.name else self.text


@dataclass(frozen=True, slots=True)
class ReadablePart:
    """A heading and what is below it: one text, a list of texts, or a table of texts by name."""

    title: str
    shape: Shape
    entries: tuple[ReadableEntry, ...]


_SHAPES: dict[str, Shape] = {"text": "text", "lines": "list", "pairs": "table"}


def readable(policy: Policy, state: State) -> list[ReadablePart]:
    """The parts of `state` that are not empty."""
    fields = policy.edit_fields(state, MemoryLimits())
    return [
        ReadablePart(field.label, _SHAPES[field.holds], tuple(_entries(field)))
        for field in fields
        if field.text.strip()
    ]


def as_text(parts: Sequence[ReadablePart]) -> str:
    """Join all parts as one text; a single text is returned without its heading."""
    if len(parts) == 1 and parts[0].shape == "text":
        return parts[0].entries[0].text
    return "\n\n".join(f"{part.title}\n{_below(part)}" for part in parts)


def _below(part: ReadablePart) -> str:
    if part.shape == "text":
        return part.entries[0].text
    return "\n".join(f"- {entry.line}" for entry in part.entries)


def _entries(field: EditField) -> Iterator[ReadableEntry]:
    if field.holds == "text":
        yield ReadableEntry("", field.text)
        return
    for _, line in lines_of(field.text):
        name, _, text = line.partition(":") if field.holds == "pairs" else ("", "", line)
        yield ReadableEntry(name.replace("_", " ").strip(), text.strip())
