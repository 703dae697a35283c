"""What a prompt shows of memory, what it omits, and why: in sentences, and as shares of turns and tokens. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from memory.context.plan import Plan, Section
from memory.policies import POLICIES
from memory.policies.protocol import FAULTS
from memory.recall.ranking import REASONS
from memory.usage.figures import counted

SECTIONS = {
    **{kind: (title, "") for policy in POLICIES.values() for kind, title in policy.section_titles.items()},
    "pins": ("Pins", "always in the prompt until removed"),
    "summary": ("Summary", "older messages in a few sentences"),
    "data": ("Key data", "details that must not get lost"),
    "narrative": ("Story", "how the conversation went so far"),
    "facts": ("Facts", "what is known, by name"),
    "card": ("Notes", "written by the model with its last reply"),
    "outline": ("Outline", "the last reply in a few words"),
    "lines": ("One-line summaries", "messages that didn't fit in full"),
    "window": ("Recent messages", "full text"),
    "recall": ("Recalled", "earlier messages that match your question"),
    "elsewhere": ("From other chats", "what was said there that matches your question"),
    "instructions": ("Instructions", "the system prompt of this chat"),
    "tools": ("Tools", "what the model may call"),
    "sources": ("Sources", "material that came with the question"),
    "question": ("Question", "your message"),
    "open_turn": ("Calls so far", "tools called for your message, and their output"),
    "attachments": ("Images and files", "that came with your message or a recent one"),
}
"""The names and descriptions of a prompt's sections, by kind."""


Topic = Literal["Left out or shortened", "Brought back by recall", "In the prompt"]


class Explanation(NamedTuple):
    """A sentence, the seq of the message it refers to, if any, and its topic."""

    text: str
    seq: int | None = None
    topic: Topic = "Left out or shortened"


def name_of(kind: str) -> str:
    """The name of a section of that kind."""
    return SECTIONS[kind][0] if kind in SECTIONS else kind.capitalize()


def explain(plan: Plan, *, head: int, folded_through: int) -> list[Explanation]:
    """Explain what became of each part of memory in the prompt of `plan`, oldest part first.

    `head` is the version the prompt was made with, which had folded the messages up to `folded_through`; 0 if
    unknown.
    """
    found = [
        *_refused(plan),
        *_summary(plan, head, folded_through),
        *_turns(plan),
        *_recalled(plan),
        *_elsewhere(plan),
        *_sources(plan),
    ]
    return found or [Explanation("The prompt contains every turn in full.", topic="In the prompt")]


def _refused(plan: Plan) -> Iterator[Explanation]:
    if plan.refused_tokens:
        yield Explanation(
            f"The model's server refused a prompt of {plan.refused_tokens:,} tokens as too long. This one has "
            f"a smaller budget. MEMORY_PROMPT_TOKEN_BUDGET={plan.budget} avoids the first attempt."
        )


def _summary(plan: Plan, head: int, folded_through: int) -> Iterator[Explanation]:
    if head and folded_through:
        text = f"Messages 1 to {folded_through} are covered by the summary, version {head}."
        yield Explanation(text, 1, "In the prompt")
    for number, clip in enumerate(plan.state, start=1):
        which = "The summary" if len(plan.state) == 1 else f"Part {number} of the memory"
        yield from _clipped(which, clip, "the newest turn has priority, and there was no room for both.")


def _turns(plan: Plan) -> Iterator[Explanation]:
    """Explain where the unfolded turns are: counted, one-line summaries, or in full."""
    rest, more = plan.unrepresented, ""
    if merged := plan.merged:
        rest, more = rest - merged.turns, " more"
        yield Explanation(
            f"{counted(merged.turns, 'turn')} between messages {merged.from_seq} and {merged.through_seq} did not fit "
            "as one-line summaries and are only counted. They can be recalled.",
            merged.from_seq,
        )
    if rest > 0:
        yield Explanation(f"{counted(rest, 'turn')}{more} did not fit. They can be recalled.")
    if plan.lines:
        first, last = plan.lines[0].from_seq, plan.lines[-1].through_seq
        yield Explanation(
            f"{counted(len(plan.lines), 'turn')} of messages {first} to {last} as one-line summaries: "
            "there was no room for the full text.",
            first,
        )
    if plan.dropped:
        yield Explanation(f"{counted(plan.dropped, 'turn')} that should be shown in full did not fit.")
    for shown in (one for one in plan.verbatim if one.clipped):
        first, last = shown.from_seq, shown.through_seq
        which = f"Message {first}" if first == last else f"The turn of messages {first} to {last}"
        sides = (("of the user's message", shown.user_clip), ("of the reply", shown.assistant_clip))
        left = ", ".join(f"{clip:,} tokens {side} remain" for side, clip in sides if clip is not None)
        yield Explanation(f"{which} was too long and is shortened in the middle: {left}.", first)


def _recalled(plan: Plan) -> Iterator[Explanation]:
    """Explain what was recalled; or why nothing was, if something might have been."""
    recall = plan.recall
    quotes = [quote for excerpt in plan.recalled for quote in excerpt]
    if quotes:
        seqs = sorted({quote.seq for quote in quotes})
        subject, verb, s = ("1 earlier message", "it matches", "")
        if len(seqs) > 1:
            subject, verb, s = (f"{len(seqs)} earlier messages", "they match", "s")
        in_part = " in part" if any(quote.end is not None for quote in quotes) else ""
        why = f" {REASONS[recall.reason]}" if recall else ""
        text = f"{subject} recalled{in_part} because {verb} the question: message{s} {', '.join(map(str, seqs))}.{why}"
        yield Explanation(text, seqs[0], "Brought back by recall")
    elif recall and recall.reason not in ("all_shown", "no_words"):
        no_room = "There was no room for what was found."
        why = REASONS[recall.reason] if recall.sought == "none" else no_room
        yield Explanation(f"No earlier message was recalled. {why}", topic="Brought back by recall")


def _elsewhere(plan: Plan) -> Iterator[Explanation]:
    """Explain what was quoted of other chats; or why nothing was, in a chat that shares what was said."""
    recall = plan.elsewhere_recall
    if recall and plan.elsewhere:
        text = f"Quotations from {counted(len(plan.elsewhere), 'other chat')}. {REASONS[recall.reason]}"
        yield Explanation(text, topic="Brought back by recall")
    elif recall and recall.reason == "answered_here":
        yield Explanation(f"No other chat is quoted. {REASONS[recall.reason]}", topic="Brought back by recall")


def _sources(plan: Plan) -> Iterator[Explanation]:
    for number, clip in enumerate(plan.sources, start=1):
        yield from _clipped(f"Source {number}", clip, "sources have a limit of their own.")


def _clipped(which: str, clip: int | None, why: str) -> Iterator[Explanation]:
    """Explain that a part was left out, or cut to its first tokens; nothing if it is whole."""
    if clip == 0:
        yield Explanation(f"{which} is left out: {why}")
    elif clip is not None:
        yield Explanation(f"{which} is cut to its first {clip:,} tokens: {why}")


# Errors

_ERRORS: dict[str, str] = {
    **FAULTS,
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


@dataclass(frozen=True, slots=True)
class BarPart:
    """One part of a bar. `start` and `width` are percent of the whole bar."""

    kind: str
    label: str
    count: int
    start: float
    width: float


def bar_of(parts: Iterable[tuple[str, str, int]], whole: int) -> list[BarPart]:
    """The bar of `parts`, each with its kind, label and count."""
    bar: list[BarPart] = []
    before = 0
    for kind, label, count in parts:
        start, width = (round(100 * number / whole, 3) if whole else 0.0 for number in (before, count))
        bar.append(BarPart(kind, label, count, start, width))
        before += count
    return bar


def coverage_of(plan: Plan, folded_turns: int) -> list[BarPart]:
    """The number of turns by where they are, oldest first: the folded ones, and the others as `plan` shows them."""
    merged = plan.merged.turns if plan.merged else 0
    without_line = min(len(plan.lines), max(0, plan.unrepresented - merged))
    parts = (
        ("folded", "In the summary", folded_turns),
        ("gap", "Not in the prompt (recall only)", plan.unrepresented),
        ("lines", "In the prompt as one-line summaries", len(plan.lines) - without_line),
        ("verbatim", "In the prompt in full", len(plan.verbatim)),
    )
    return bar_of(parts, sum(count for *_, count in parts))


class Budget(NamedTuple):
    """The tokens of one prompt: memory as a bar by section, with what is free, and the sections `beside` memory."""

    tokens: int
    budget: int
    parts: list[BarPart]
    beside: list[tuple[str, int]]


STYLES = {
    "lines": "lines",
    "window": "verbatim",
    "recall": "recall",
    "elsewhere": "recall",
    "pins": "pins-part",
    **dict.fromkeys(("facts", "data", "card"), "facts-part"),  # named facts, beside the text of the summary
}
"""The style of a section in the bar: that of the turns whose text it has. Any other is "folded"."""


def budget_of(sections: Sequence[Section], budget: int) -> Budget:
    """Divide `budget` by `sections`, in the order of the prompt."""
    memory = [one for one in sections if one.kind not in OUTSIDE_MEMORY]
    used = sum(one.tokens for one in memory)
    parts = [(STYLES.get(one.kind, "folded"), name_of(one.kind), one.tokens) for one in memory]
    parts.append(("free", "Free", max(0, budget - used)))
    beside = [(name_of(one.kind), one.tokens) for one in sections if one.kind in OUTSIDE_MEMORY]
    return Budget(used, budget, bar_of(parts, max(used, budget)), beside)
