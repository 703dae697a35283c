"""What a prompt shows of memory, what it omits, and why: in sentences, and as shares of turns and tokens. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from memory.context.plan import Plan, Shown
from memory.policies import POLICIES
from memory.policies.protocol import FAULTS
from memory.recall.excerpts import Quote
from memory.recall.ranking import REASONS

SECTION_NAMES = {
    **{kind: title for policy in POLICIES.values() for kind, title in policy.section_titles.items()},
    "instructions": "Instructions",
    "pins": "Pins",
    "outline": "Outline of the last reply",
    "lines": "One-line summaries",
    "window": "Recent messages (full text)",
    "recall": "Recalled from earlier",
    "tools": "Tools",
    "sources": "Sources",
    "question": "Question",
    "open_turn": "Calls so far, and their output",
    "attachments": "Images and files",
}
"""The names of a prompt's sections, by kind."""


Topic = Literal["there", "left out", "brought back"]


class Explanation(NamedTuple):
    """A sentence, the seq of the message it refers to, if any, and its topic."""

    text: str
    seq: int | None = None
    topic: Topic = "left out"


def name_of(kind: str) -> str:
    """The name of a section of that kind."""
    return SECTION_NAMES.get(kind, kind.capitalize())


def explain(plan: Plan, *, head: int = 0, folded_through: int = 0) -> list[Explanation]:
    """Explain what became of each part of memory in the prompt of `plan`, oldest part first.

    `head` is the revision the prompt was made with, which had folded the messages up to `folded_through`; 0 if
    unknown.
    """
    return [
        *_folded(head, folded_through),
        *_state(plan),
        *_unsaid(plan),
        *_lines(plan),
        *_verbatim(plan),
        *_recalled(plan),
        *_sources(plan),
    ] or [Explanation("The prompt contains every turn in full.", topic="there")]


def _folded(head: int, folded_through: int) -> Iterator[Explanation]:
    if head and folded_through:
        yield Explanation(
            f"Messages 1 to {folded_through} are covered by the summary, version {head}.",
            1,
            "there",
        )


def _state(plan: Plan) -> Iterator[Explanation]:
    for number, clip in enumerate(plan.state, start=1):
        which = "The summary" if len(plan.state) == 1 else f"Part {number} of the memory"
        if clip == 0:
            yield Explanation(
                f"{which} is left out: the newest turn has priority, and there was no room for both."
            )
        elif clip is not None:
            yield Explanation(
                f"{which} is cut to its first {clip:,} tokens: "
                "the newest turn has priority, and there was no room for all of it."
            )


def _unsaid(plan: Plan) -> Iterator[Explanation]:
    merged = plan.merged
    named = merged.turns if merged else 0
    if merged:
        yield Explanation(
            f"{_turns(merged.turns)} between messages {merged.from_seq} and {merged.through_seq} did not fit as "
            "one-line summaries and are only counted. They can be recalled.",
            merged.from_seq,
        )
    if plan.unrepresented > named:
        rest = plan.unrepresented - named
        yield Explanation(f"{_turns(rest)}{' more' if named else ''} did not fit. They can be recalled.")


def _lines(plan: Plan) -> Iterator[Explanation]:
    if plan.lines:
        first, last = plan.lines[0].from_seq, plan.lines[-1].through_seq
        yield Explanation(
            f"{_turns(len(plan.lines))} of messages {first} to {last} as one-line summaries: "
            "there was no room for the full text.",
            first,
        )


def _verbatim(plan: Plan) -> Iterator[Explanation]:
    if plan.dropped:
        yield Explanation(f"{_turns(plan.dropped)} that should be shown in full did not fit.")
    for shown in plan.verbatim:
        if shown.clipped:
            yield Explanation(
                f"{_messages(shown.from_seq, shown.through_seq)} was too long and is shortened in the middle: "
                f"{_left(shown)}.",
                shown.from_seq,
            )


def _recalled(plan: Plan) -> Iterator[Explanation]:
    if not plan.recalled:
        yield from _nothing_recalled(plan)
        return
    quotes = [quote for excerpt in plan.recalled for quote in excerpt]
    seqs = sorted({quote.seq for quote in quotes})
    count = len(seqs)
    messages, they = (
        ("1 earlier message", "it matches") if count == 1 else (f"{count} earlier messages", "they match")
    )
    where = f"message{'s' * (count > 1)} {', '.join(map(str, seqs))}"
    why = f" {REASONS[plan.recall.reason]}" if plan.recall else ""
    yield Explanation(
        f"{messages} recalled{_in_part(quotes)} because {they} the question: {where}.{why}",
        seqs[0],
        "brought back",
    )


def _nothing_recalled(plan: Plan) -> Iterator[Explanation]:
    """Explain why nothing was recalled, if something might have been."""
    if plan.recall and plan.recall.reason not in ("all_shown", "no_words"):
        why = (
            REASONS[plan.recall.reason]
            if plan.recall.sought == "none"
            else "There was no room for what was found."
        )
        yield Explanation(f"No earlier message was recalled. {why}", topic="brought back")


def _sources(plan: Plan) -> Iterator[Explanation]:
    for number, clip in enumerate(plan.sources, start=1):
        if clip == 0:
            yield Explanation(f"Source {number} is left out: the sources before it used up the limit.")
        elif clip is not None:
            yield Explanation(
                f"Source {number} is cut to its first {clip:,} tokens: sources have a limit of their own."
            )


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count:,} turns"


def _messages(first: int, last: int) -> str:
    return f"Message {first}" if first == last else f"The turn of messages {first} to {last}"


def _left(shown: Shown) -> str:
    sides = (("of the user's message", shown.user_clip), ("of the reply", shown.assistant_clip))
    return ", ".join(f"{clip:,} tokens {side} remain" for side, clip in sides if clip is not None)


def _in_part(quotes: Sequence[Quote]) -> str:
    return " in part" if any(quote.end is not None for quote in quotes) else ""


# Errors

_ERRORS: dict[str, str] = {
    **{str(fault): said for fault, said in FAULTS.items()},
    "upstream_error": "The model provider returned an error.",
    "upstream_timeout": "The model did not answer in time.",
    "context_length_exceeded": "The prompt was too long for the model.",
    "refused": "The model refused to answer.",
    "interrupted": "The reply was cut off.",
    "too_long": "The reply exceeded the size limit.",
    "internal": "Internal error; see the log.",
}


def error_words(code: str) -> str:
    """Return the meaning of a stored error's code as a sentence, which names the code if it is unknown."""
    return _ERRORS.get(code, f"It failed ({code}).")


# Shares: how turns are divided between summary and prompt, and a prompt's tokens between its sections

OUTSIDE_MEMORY = ("instructions", "tools", "sources", "question", "open_turn", "attachments")
"""Sections of a prompt that are not part of memory, and do not count against its budget."""
FACTS = ("facts", "data", "card")
"""Sections that hold named facts, beside the text of the summary."""


@dataclass(frozen=True, slots=True)
class CoveragePart:
    """One part of the bar. `start` and `width` are percent of all turns."""

    kind: str
    label: str
    turns: int
    start: float
    width: float

    @property
    def count(self) -> int:
        """The number that the bar shows for this part."""
        return self.turns


@dataclass(frozen=True, slots=True)
class Share:
    """One part of a prompt's budget. `count` is tokens, `start` and `width` are percent of the whole bar."""

    kind: str
    label: str
    count: int
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class Budget:
    """The tokens of one prompt: memory by section, with what is `free`, and the sections `beside` memory."""

    tokens: int
    budget: int
    parts: tuple[Share, ...]
    beside: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Coverage:
    """Number of turns by where they are. `gap` counts turns in neither summary nor prompt: found by recall only."""

    folded: int
    verbatim: int
    lines: int
    gap: int

    @property
    def total(self) -> int:
        return self.folded + self.verbatim + self.lines + self.gap

    @property
    def parts(self) -> list[CoveragePart]:
        """The four parts of the bar, oldest turns first."""
        labels = {
            "folded": "In the summary",
            "gap": "Not in the prompt (recall only)",
            "lines": "In the prompt as one-line summaries",
            "verbatim": "In the prompt in full",
        }
        parts: list[CoveragePart] = []
        before = 0
        for kind, label in labels.items():
            turns: int = getattr(self, kind)
            parts.append(CoveragePart(kind, label, turns, self._percent(before), self._percent(turns)))
            before += turns
        return parts

    def _percent(self, turns: int) -> float:
        return round(100 * turns / self.total, 3) if self.total else 0.0


def coverage_of(plan: Plan, folded_turns: int) -> Coverage:
    """Count how `plan` shows the unfolded turns, in addition to the folded ones."""
    merged = plan.merged.turns if plan.merged else 0
    unsaid = min(len(plan.lines), max(0, plan.unrepresented - merged))  # turns in `plan.lines` without a line
    return Coverage(folded_turns, len(plan.verbatim), len(plan.lines) - unsaid, plan.unrepresented)


def budget_of(sections: Iterable[tuple[str, int]], budget: int) -> Budget:
    """Divide `budget` by `sections`, a (kind, tokens) pair each, in the order of the prompt."""
    sections = list(sections)
    memory = [
        (_drawn(kind), name_of(kind), tokens) for kind, tokens in sections if kind not in OUTSIDE_MEMORY
    ]
    used = sum(tokens for _, _, tokens in memory)
    memory.append(("free", "Free", max(0, budget - used)))
    whole, before, parts = max(used, budget), 0, []
    for kind, label, tokens in memory:
        start, width = (round(100 * count / whole, 3) if whole else 0.0 for count in (before, tokens))
        parts.append(Share(kind, label, tokens, start, width))
        before += tokens
    beside = tuple((name_of(kind), tokens) for kind, tokens in sections if kind in OUTSIDE_MEMORY)
    return Budget(used, budget, tuple(parts), beside)


def _drawn(kind: str) -> str:
    """The style of a section's bar: that of the turns whose text it has; named facts have a style apart from prose."""
    drawn = {"lines": "lines", "window": "verbatim", "recall": "recall", "pins": "pins-part"}
    return drawn.get(kind) or ("facts-part" if kind in FACTS else "folded")
