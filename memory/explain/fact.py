"""Whether a fact is in a text, which versions of a summary had it, and how a prompt contained it. Pure.

A fact is in a text if all its words are in one passage of it, in any of their forms, which is how recall finds words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

from memory.context.plan.plan import Plan
from memory.recall.analysis.terms import passages, terms
from memory.recall.excerpts import Quote
from memory.recall.query import Question

WAYS = {
    "verbatim": "in full",
    "shortened": "in a message that was shortened: it may have been cut out",
    "line": "in a one-line summary",
    "summary": "in the summary",
    "recalled": "recalled",
    "pinned": "pinned",
    "question": "in the question itself",
}
"""The ways in which a prompt can contain a fact, and their names for people."""
OF_SECTION = {"window": "verbatim", "lines": "line", "recall": "recalled", "pins": "pinned"}
"""The way that corresponds to a section of a prompt. A policy's own sections count as the summary."""
BESIDE_MEMORY = frozenset({"instructions", "tools", "sources", "question", "open_turn", "attachments"})

Holds = Callable[[Collection[int]], Mapping[int, bool]]
"""A function that returns which of the given versions have the fact."""


@dataclass(frozen=True, slots=True)
class TracedFact:
    """The fact to trace: its words, as recall reads them."""

    words: frozenset[str]

    @classmethod
    def of(cls, asked: Question) -> TracedFact:
        """The fact that `asked` names; one without words is in no text."""
        return cls(frozenset(word.term for word in asked.words))

    def is_in(self, text: str) -> bool:
        """Whether one passage of `text` has all the words."""
        spans = passages(text) if self.words else []
        return any(self.words.issubset(terms(text[start:end])) for start, end in spans)


class HeldSpan(NamedTuple):
    """Consecutive versions of a summary that have the fact, and the next one, which lost it, if any."""

    from_version: int
    through_version: int
    lost_in: int | None


def held_spans(marks: Sequence[int], newest: int, holds: Holds) -> list[HeldSpan]:
    """Find which versions, from the first of `marks` to `newest`, have the fact.

    `marks` are in order. Between two marks the fact is assumed to appear or disappear at most once, as a fold keeps
    or drops what was there. So binary search reads only a few of many versions.
    """
    spans = [(first, after - 1) for first, after in pairwise([*marks, newest + 1])]
    known = dict(holds({version for span in spans for version in span}))
    while halves := [span for span in spans if known[span[0]] != known[span[1]] and span[1] - span[0] > 1]:
        middles = [(first + last) // 2 for first, last in halves]
        known |= holds(middles)
        spans = [
            (middle, last) if known[middle] == known[first] else (first, middle)
            for (first, last), middle in zip(halves, middles, strict=True)
        ]
    return list(_spans(sorted(known.items())))


def _spans(known: Iterable[tuple[int, bool]]) -> Iterator[HeldSpan]:
    first = last = None
    for version, is_held in known:
        if is_held:
            first, last = version if first is None else first, version
        elif first is not None and last is not None:
            yield HeldSpan(first, last, version)
            first = None
    if first is not None and last is not None:
        yield HeldSpan(first, last, None)


def is_held(version: int, spans: Iterable[HeldSpan]) -> bool:
    """Whether that version has the fact."""
    return any(span.from_version <= version <= span.through_version for span in spans)


@dataclass(frozen=True, slots=True)
class FactPlaces:
    """Where a fact is outside of summaries: the seqs of messages that say it or whose turn's line has it, and pins."""

    said: frozenset[int] = frozenset()
    lines: frozenset[int] = frozenset()
    pins: frozenset[str] = frozenset()
    texts: Mapping[int, str] = field(default_factory=dict)
    """Texts of the messages from which a prompt quotes a part, by seq."""


def ways_of(
    plan: Plan, question_seq: int, fact: TracedFact, places: FactPlaces, *, in_summary: bool
) -> list[str]:
    """The ways in which the prompt of `plan` contained the fact, in the order of `WAYS`; [] if it did not."""
    shown = [turn for turn in plan.verbatim if _has(turn.from_seq, turn.through_seq, places.said)]
    quotes = [quote for group in plan.recalled for quote in group if quote.seq in places.said]
    found = {
        "verbatim": any(not turn.clipped for turn in shown),
        "shortened": any(turn.clipped for turn in shown),
        "line": any(_has(line.from_seq, line.through_seq, places.lines) for line in plan.lines),
        "summary": in_summary and 0 not in plan.state,
        "recalled": any(_quotes(quote, fact, places) for quote in quotes),
        "pinned": any(pin.id in places.pins for pin in plan.pins),
        "question": question_seq in places.said,
    }
    return [way for way in WAYS if found[way]]


def _has(from_seq: int, through_seq: int, seqs: Collection[int]) -> bool:
    return any(from_seq <= seq <= through_seq for seq in seqs)


def _quotes(quote: Quote, fact: TracedFact, places: FactPlaces) -> bool:
    return quote.end is None or fact.is_in(places.texts.get(quote.seq, "")[quote.start : quote.end])


def ways_in(sections: Iterable[tuple[str, str]], fact: TracedFact) -> list[str]:
    """The ways in which a prompt with `sections`, (kind, text) pairs, contains the fact, except in the question."""
    found = {
        OF_SECTION.get(kind, "summary")
        for kind, text in sections
        if kind not in BESIDE_MEMORY and fact.is_in(text)
    }
    return [way for way in WAYS if way in found]


class TracedPrompt(NamedTuple):
    """A prompt that was examined: the reply it was for, the version of the summary in it, how it contained the fact."""

    message_id: UUID
    seq: int
    version: int
    how: tuple[str, ...]


class PromptRun(NamedTuple):
    """Consecutive prompts, among those examined, that contain the fact in the same ways."""

    first: TracedPrompt
    last: TracedPrompt
    prompts: int


def prompt_runs(prompts: Sequence[TracedPrompt]) -> list[PromptRun]:
    """Group `prompts` (newest first) into runs, newest first."""
    runs: list[PromptRun] = []
    for prompt in prompts:
        if runs and runs[-1].first.how == prompt.how:
            runs[-1] = PromptRun(prompt, runs[-1].last, runs[-1].prompts + 1)
        else:
            runs.append(PromptRun(prompt, prompt, 1))
    return runs
