"""Render a plan and the texts it names as messages and sections. The only module that writes what a model is sent.

The same plan, texts and `RENDERER` give the same messages, byte for byte. Nothing is decided here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from chatmemory.llm.attachments import Attachment
from chatmemory.llm.protocol import PromptMessage, Role
from chatmemory.text.cleaning import disarm
from chatmemory.text.markers import (
    LINES_HEADING,
    RECENT_HEADING,
    SOURCES_HEADING,
    is_marker,
    line_skeleton,
    quote_lines,
    quote_markers,
)
from chatmemory.text.tokens import MESSAGE_OVERHEAD, clip_end, clip_middle, count_tokens
from memory.context.plan import Clips, Plan, Section, Shown
from memory.history.turns import (
    OUTLINE_TOKENS,
    OUTPUT_TOKENS,
    Step,
    Turn,
    assistant_text,
    line_text,
    step_messages,
)
from memory.pins.section import render_pins
from memory.policies.protocol import StateSection
from memory.recall.excerpts import RecalledMessage, render_excerpts

Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A section and the messages that contain it."""

    section: Section
    messages: tuple[PromptMessage, ...]


def render_memory(
    plan: Plan,
    state: Sequence[StateSection],
    turns: Sequence[Turn],
    said: Mapping[int, RecalledMessage],
    count: Count,
    pinned: Mapping[str, str] | None = None,
) -> list[Rendered]:
    """Render pins, state, lines, verbatim turns and excerpts as `plan` says, in the order of the prompt.

    Empty parts are left out. `said` are the messages of which there are excerpts, `pinned` the texts of pins by id.
    """
    by_seq = {turn.from_seq: turn for turn in turns}
    shown = [(by_seq[s.from_seq], s) for s in plan.verbatim if s.from_seq in by_seq]
    parts = [
        _pins(plan, pinned or {}, count),
        *_state(plan, state, count),
        _lines(plan, by_seq, count),
        _window(plan, shown, count),
        _recalled(plan, said, count),
    ]
    rendered = [part for part in parts if part is not None and part.messages]
    return [_disarmed(part, count) for part in rendered] if plan.disarms else rendered


def render_part(
    kind: str, text: str, count: Count, ids: Iterable[UUID] = (), *, clipped: bool = False
) -> Rendered:
    """Render a section as one message in the user role; no message if `text` is empty."""
    return _rendered(kind, [PromptMessage("user", text)] if text else [], count, ids, clipped=clipped)


def _rendered(
    kind: str,
    messages: Sequence[PromptMessage],
    count: Count,
    ids: Iterable[UUID] = (),
    *,
    clipped: bool = False,
) -> Rendered:
    tokens = sum(message.tokens(count) for message in messages)
    text = messages[0].content if len(messages) == 1 else _labelled(messages)
    return Rendered(Section(kind, tokens, text, tuple(ids), clipped), tuple(messages))


def _disarmed(part: Rendered, count: Count) -> Rendered:
    """Return `part` with the control tokens of models broken up, and counted again."""
    messages = tuple(message.with_texts(disarm) for message in part.messages)
    if messages == part.messages:
        return part
    section = part.section
    return _rendered(section.kind, messages, count, section.message_ids, clipped=section.clipped)


def _labelled(messages: Sequence[PromptMessage]) -> str:
    return "\n\n".join(LABELS[message.role] + message.text for message in messages)


def render_question(text: str, attachments: tuple[Attachment, ...], count: Count) -> Rendered:
    """Render the user's question, with the images and files that came with it."""
    said = [PromptMessage("user", text, attachments=attachments)] if text else []
    return _rendered("question", said, count)


def render_steps(
    steps: Sequence[Step], clips: Sequence[int | None], count: Count, *, disarms: bool
) -> Rendered:
    """Render the open turn that follows the question, each step cut to its tokens in `clips` (empty: whole)."""
    part = _rendered(
        "open_turn", step_messages(steps, clips), count, clipped=any(c is not None for c in clips)
    )
    return _disarmed(part, count) if disarms else part


def _pins(plan: Plan, pinned: Mapping[str, str], count: Count) -> Rendered | None:
    if not plan.pins:
        return None
    clipped = bool(plan.pins_left_out) or any(pin.clip is not None for pin in plan.pins)
    return render_part("pins", render_pins(plan.pins, plan.pins_left_out, pinned), count, clipped=clipped)


def _state(plan: Plan, state: Sequence[StateSection], count: Count) -> Iterator[Rendered]:
    # Not strict: a stored plan can outlive a state that was erased, or may have shown none of it.
    for section, clip in zip(state, plan.state, strict=False):
        text = section.text if clip is None else clip_end(section.text, clip)
        if text:
            yield _rendered(
                section.kind, [PromptMessage(section.role, text)], count, clipped=clip is not None
            )


def _lines(plan: Plan, by_seq: dict[int, Turn], count: Count) -> Rendered | None:
    turns = [by_seq[span.from_seq] for span in plan.lines if span.from_seq in by_seq]
    lines = [line_text(turn, plan.line_tokens) for turn in turns]
    if plan.merged:
        lines.insert(0, merged_text(*plan.merged))
    if not lines:
        return None
    return render_part("lines", render_lines(lines), count, _ids(turns))


def _window(plan: Plan, shown: Sequence[tuple[Turn, Shown]], count: Count) -> Rendered | None:
    ids = _ids(turn for turn, _ in shown)
    clipped = any(as_shown.clipped for _, as_shown in shown)
    if plan.turns_as == "text":
        return render_part("window", turns_text(shown), count, ids, clipped=clipped)
    messages = [
        message
        for turn, as_shown in shown
        for message in turn_messages(turn, as_shown, attached=turn.from_seq in plan.attached)
    ]
    return _rendered("window", messages, count, ids, clipped=clipped)


def _recalled(plan: Plan, said: Mapping[int, RecalledMessage], count: Count) -> Rendered | None:
    if not plan.recalled:
        return None
    quotes = [quote for quotes in plan.recalled for quote in quotes if quote.seq in said]
    ids = dict.fromkeys(said[quote.seq].id for quote in quotes)
    clipped = any(quote.end is not None for quote in quotes)
    return render_part("recall", render_excerpts(plan.recalled, said), count, ids, clipped=clipped)


def _ids(turns: Iterable[Turn]) -> list[UUID]:
    return [message_id for turn in turns for message_id in turn.message_ids]


# Lines, and the outline of the last reply (seed 002)


def merged_text(from_seq: int, through_seq: int, turns: int) -> str:
    """The single line that replaces all turns whose own lines have no room."""
    noun = "turn" if turns == 1 else "turns"
    return f"{turns} {noun} between messages {from_seq} and {through_seq}: not shown here."


def render_lines(lines: Iterable[str]) -> str:
    """The message that contains `lines`, oldest first."""
    return LINES_HEADING + "\n" + quote_markers("\n".join(f"- {line}" for line in lines))


def outline_sections(outline: str) -> list[StateSection]:
    """The section that shows `outline`; none for an empty one."""
    if not outline:
        return []
    return [StateSection("outline", clip_end(OUTLINE + quote_markers(outline), OUTLINE_TOKENS))]


OUTLINE: Final = "Previous response outline: "
"""Prefix of the outline, exactly as in seed 002."""


# Turns in full


LABELS: dict[Role, str] = {"user": "User: ", "assistant": "Assistant: ", "tool": "Tool: "}


def turn_messages(turn: Turn, shown: Shown, *, attached: bool = False) -> list[PromptMessage]:
    """Render the turn as messages in their own roles. A side without text sends none.

    With `attached`, its images and files are sent, too. Tool calls are sent as such unless the reply is clipped or
    was cut off: a model that reads them as text writes them as text.
    """
    if turn.steps and shown.assistant_clip is None and not turn.cut_off:
        clips = [OUTPUT_TOKENS if step.role == "tool" else None for step in turn.steps]
        replies = step_messages(turn.steps, clips)
    else:
        reply = _clipped(assistant_text(turn), shown.assistant_clip)
        replies = [PromptMessage("assistant", reply)] if reply else []
    asked = _clipped(turn.user, shown.user_clip)
    question = PromptMessage("user", asked, attachments=turn.attachments if attached else ())
    return [question, *replies] if asked else replies


def turns_text(pairs: Sequence[tuple[Turn, Shown]]) -> str:
    """Render all turns as one block, in the format of seed 000; "" if there is nothing to show."""
    blocks = [block for turn, shown in pairs if (block := _turn_block(turn, shown))]
    return "\n\n".join([RECENT_HEADING, *blocks]) if blocks else ""


def _turn_block(turn: Turn, shown: Shown) -> str:
    sides: tuple[tuple[Role, str], ...] = (
        ("user", _quoted(turn.user, shown.user_clip)),
        ("assistant", _quoted(assistant_text(turn), shown.assistant_clip)),
    )
    return "\n".join(LABELS[role] + text for role, text in sides if text)


def _quoted(text: str, clip: int | None) -> str:
    quoted = quote_markers(text)
    # Again after clipping: text from the middle of a line may now be at the start of one.
    return quoted if clip is None else quote_markers(clip_middle(quoted, clip))


def _clipped(text: str, clip: int | None) -> str:
    return text if clip is None else clip_middle(text, clip)


# Sources: material that was retrieved for one question. It has its own limit and is not memory


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
