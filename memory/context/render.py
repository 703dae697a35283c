"""Render a plan and the texts it names as messages and sections. The only module that writes what a model is sent.

The same plan, texts and `RENDERER` give the same messages, byte for byte. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from chatmemory.llm.attachments import Attachment
from chatmemory.llm.protocol import PromptMessage
from chatmemory.text.control_tokens import disarm
from chatmemory.text.tokens import clip_end
from memory.context.plan.lines import merged_text, render_lines
from memory.context.plan.plan import Plan, Section, Shown
from memory.context.verbatim import LABELS, as_messages, as_text
from memory.history.costs import line_text
from memory.history.tool_steps import Step
from memory.history.tool_steps import as_messages as as_native
from memory.history.turns import Turn
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
    part = _rendered("open_turn", as_native(steps, clips), count, clipped=any(c is not None for c in clips))
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
        return render_part("window", as_text(shown), count, ids, clipped=clipped)
    messages = [
        message
        for turn, as_shown in shown
        for message in as_messages(turn, as_shown, attached=turn.from_seq in plan.attached)
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
