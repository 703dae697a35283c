"""Memory edited by hand: the state of each policy as parts that a person can read and write, and back.

What is over its cap is refused, never cut: whoever wrote it decides what goes. A policy that is not named here has
its summary as the one part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from chatmemory.text.markers import quote_markers
from chatmemory.text.tokens import count_tokens
from memory.limits import MemoryLimits
from memory.policies.card.card import LISTS as CARD_LISTS
from memory.policies.card.card import TEXTS as CARD_TEXTS
from memory.policies.card.card import WIRE, Card, CardNumbers, stored_card, told_in
from memory.policies.card.policy import card_numbers
from memory.policies.editing.facts import FactsInHand
from memory.policies.editing.fields import (
    MANY_ROWS,
    BadEdit,
    EditField,
    clean,
    lines_of,
    require_few,
    require_within,
)
from memory.policies.editing.important_data import DataInHand
from memory.policies.interval import IntervalNumbers
from memory.policies.numbers import numbers_in
from memory.policies.progressive.policy import folds_of, summary_cap
from memory.policies.protocol import Policy, State


def parts_of(policy: Policy, state: State, limits: MemoryLimits) -> list[EditField]:
    """What of `state` can be edited, as fields of a form."""
    return _way(policy).parts(state, limits)


def edited(policy: Policy, state: State, texts: Mapping[str, str], limits: MemoryLimits) -> State:
    """`state` with the parts that `texts` names replaced. Raises `BadEdit`."""
    way = _way(policy)
    whole = {part.name: part.text for part in way.parts(state, limits)}
    whole |= {name: text for name, text in texts.items() if name in whole}
    after = way.state(state, whole, limits)
    if not policy.render(after):
        raise BadEdit("Nothing would be left of what is remembered. A rebuild makes the memory anew.")
    return after


class _Editor(ABC):
    """How the states of one kind of policy are edited."""

    @abstractmethod
    def parts(self, state: State, limits: MemoryLimits) -> list[EditField]:
        """The state as fields."""

    @abstractmethod
    def state(self, before: State, texts: Mapping[str, str], limits: MemoryLimits) -> State:
        """The state that all the fields say. Raises `BadEdit`."""


class _Text(_Editor):
    """A summary, and nothing else."""

    def parts(self, state: State, limits: MemoryLimits) -> list[EditField]:
        return [
            EditField("summary", "Summary", state.summary, f"At most {self.cap(limits):,} tokens.", MANY_ROWS)
        ]

    def state(self, before: State, texts: Mapping[str, str], limits: MemoryLimits) -> State:
        summary = quote_markers(clean(texts["summary"]))
        require_within(summary, self.cap(limits), "The summary", "summary")
        return replace(before, summary=summary)

    def cap(self, limits: MemoryLimits) -> int:
        """The most tokens of the summary."""
        return limits.summary_cap


class _Paragraph(_Text):
    """The paragraph of `interval`."""

    def cap(self, limits: MemoryLimits) -> int:
        return numbers_in(limits, "interval", IntervalNumbers).token_cap


class _Progressive(_Editor):
    """Important data in seven kinds, and a narrative."""

    data = DataInHand()

    def parts(self, state: State, limits: MemoryLimits) -> list[EditField]:
        cap = summary_cap(max(1, folds_of(state)))
        summary = EditField("summary", "Narrative", state.summary, f"At most {cap:,} tokens.", MANY_ROWS)
        return [summary, *self.data.parts(state)]

    def state(self, before: State, texts: Mapping[str, str], limits: MemoryLimits) -> State:
        summary = quote_markers(clean(texts["summary"]))
        require_within(summary, summary_cap(max(1, folds_of(before))), "The narrative", "summary")
        stored = self.data.stored(before, texts, limits)
        return State(summary, {**before.data, **stored, "summary_version": max(1, folds_of(before))})


class _Facts(_Editor):
    """Facts by category, and the pieces of a narrative."""

    facts = FactsInHand()

    def parts(self, state: State, limits: MemoryLimits) -> list[EditField]:
        return self.facts.parts(state)

    def state(self, before: State, texts: Mapping[str, str], limits: MemoryLimits) -> State:
        return self.facts.state(before, texts, limits)


class _Card(_Editor):
    """A memory card of six fields."""

    labels: ClassVar[dict[str, str]] = {
        "goal": "Goal",
        "constraints": "Limits and conditions",
        "decisions": "Decisions",
        "open_q": "Open questions",
        "techniques": "Methods and topics",
        "lesson_context": "What it is about now",
    }

    def parts(self, state: State, limits: MemoryLimits) -> list[EditField]:
        card, numbers = stored_card(state.data), card_numbers(limits)
        return [self._part(name, getattr(card, name), numbers) for name in WIRE]

    def state(self, before: State, texts: Mapping[str, str], limits: MemoryLimits) -> State:
        numbers = card_numbers(limits)
        given: dict[str, Any] = {name: " ".join(clean(texts[name]).split()) for name in CARD_TEXTS}
        given |= {name: [line for _, line in lines_of(texts[name])] for name in CARD_LISTS}
        for name in CARD_TEXTS:
            require_within(given[name], getattr(numbers, f"{name}_tokens"), "It", name)
        for name in CARD_LISTS:
            require_few(len(given[name]), getattr(numbers, f"max_{name}"), name)
        fields: dict[str, Any] = told_in(given)
        card = Card(**fields)
        tokens = count_tokens(card.wire())
        if tokens > numbers.token_budget:
            raise BadEdit(f"The card has {tokens} tokens, and may have {numbers.token_budget}.")
        wire = "" if card == Card() else card.wire()
        return State(wire, {**card.to_json(), "is_ahead": before.data.get("is_ahead") is True})

    def _part(self, name: str, held: str | Sequence[str], numbers: CardNumbers) -> EditField:
        if isinstance(held, str):
            most = getattr(numbers, f"{name}_tokens")
            return EditField(name, self.labels[name], held, f"At most {most} tokens.", 2)
        most = getattr(numbers, f"max_{name}")
        return EditField(name, self.labels[name], "\n".join(held), f"One to a line, at most {most}.")


_WAYS: Final[dict[str, _Editor]] = {
    "progressive": _Progressive(),
    "card": _Card(),
    "hierarchical": _Facts(),
    "interval": _Paragraph(),
}


def _way(policy: Policy) -> _Editor:
    return _WAYS.get(policy.name, _Text())
