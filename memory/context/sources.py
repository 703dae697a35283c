"""Fit and render sources: material that was retrieved for one question. It has its own limit and is not memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from chatmemory.text.confusables import line_skeleton
from chatmemory.text.markers import SOURCES_HEADING, is_marker, quote_lines
from chatmemory.text.tokens import MESSAGE_OVERHEAD, clip_end, count_tokens
from memory.context.plan.plan import Clips

MIN_SOURCE = 24
"""Tokens below which a clipped source is left out."""

_HEAD = re.compile(r"\[\s*[\do]+\s*\]")


@dataclass(frozen=True, slots=True)
class Source:
    """One retrieved text. The title may be empty."""

    title: str
    text: str


def fit_sources(sources: Sequence[Source], budget: int) -> Clips:
    """Return how to clip the sources, the last ones first, so that their message has at most `budget` tokens."""
    costs, allowance = _costs(sources, budget), budget
    for attempt in range(budget.bit_length() + 1):
        clips = _share(costs, allowance)
        text = render_sources(sources, clips)
        over = count_tokens(text) + MESSAGE_OVERHEAD - budget if text else 0
        if over <= 0:
            return clips
        allowance -= over * 2**attempt
    return (0,) * len(sources)


def render_sources(sources: Sequence[Source], clips: Clips) -> str:
    """The message that contains the sources; "" if none is shown. They keep the numbers they have in the request."""
    blocks = [
        block if clip is None else clip_end(block, clip)
        for block, clip in zip(_blocks(sources), clips, strict=False)  # a stored plan can outlive its sources
        if clip != 0
    ]
    return "\n\n".join([SOURCES_HEADING, *blocks]) if blocks else ""


def _blocks(sources: Sequence[Source]) -> list[str]:
    return [_block(number, source) for number, source in enumerate(sources, start=1)]


def _block(number: int, source: Source) -> str:
    title = " ".join(source.title.split())
    head = f"[{number}] {title}".rstrip()
    if is_marker(head):  # like the head of an excerpt
        head = f"[{number}] > {title}"
    return f"{head}\n{quote_lines(source.text, _is_taken)}"


def _is_taken(line: str) -> bool:
    """Whether a line of a source could be read as a marker or as the head of another source."""
    return is_marker(line) or _HEAD.match(line_skeleton(line)) is not None


def _costs(sources: Sequence[Source], budget: int) -> list[int]:
    """Tokens of each source. Once the budget is exceeded, the rest are not counted but given a number above it."""
    costs: list[int] = []
    left = budget
    for block in _blocks(sources):
        costs.append(count_tokens(block) + 1 if left >= 0 else budget + 1)
        left -= costs[-1]
    return costs


def _share(costs: Sequence[int], allowance: int) -> Clips:
    left = allowance - MESSAGE_OVERHEAD - count_tokens(SOURCES_HEADING)
    clips: list[int | None] = []
    for tokens in costs:
        if tokens <= left:
            clips.append(None)
            left -= tokens
        else:
            clips.append(left - 1 if left > MIN_SOURCE else 0)
            left = 0
    return tuple(clips)
