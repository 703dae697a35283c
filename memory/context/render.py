"""Render a plan and the texts it names as messages and sections. The only module that writes what a model is sent.

The same plan, texts and `RENDERER` give the same messages, byte for byte. Nothing is decided here.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final
from uuid import UUID

from chatmemory.llm.attachments import Attachment
from chatmemory.llm.protocol import PromptMessage, Role
from chatmemory.text.cleaning import disarm
from chatmemory.text.markers import (
    LINES_HEADING,
    RECALL_HEADING,
    RECENT_HEADING,
    SOURCES_HEADING,
    is_marker,
    line_skeleton,
    quote_lines,
    quote_markers,
)
from chatmemory.text.tokens import clip_end, clip_middle, count_repeated
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
from memory.recall.ranking import Quote, RecalledMessage

LABELS: dict[Role, str] = {"user": "User: ", "assistant": "Assistant: ", "tool": "Tool: "}


def render_memory(
    plan: Plan,
    state: Sequence[StateSection],
    turns: Sequence[Turn],
    said: Mapping[int, RecalledMessage],
    pinned: Mapping[str, str] | None = None,
) -> list[Section]:
    """Render pins, state, lines, verbatim turns and excerpts as `plan` says, in the order of the prompt.

    Empty parts are left out. `said` are the messages of which there are excerpts, `pinned` the texts of pins by id.
    """
    by_seq = {turn.from_seq: turn for turn in turns}
    pins_cut = bool(plan.pins_left_out) or any(pin.clip is not None for pin in plan.pins)
    parts = [
        section_of("pins", render_pins(plan.pins, plan.pins_left_out, pinned or {}), clipped=pins_cut),
        *_state(plan, state),
        _lines(plan, by_seq),
        _window(plan, [(by_seq[one.from_seq], one) for one in plan.verbatim if one.from_seq in by_seq]),
        _recalled(plan, said),
    ]
    rendered = [part for part in parts if part.messages]
    return [_disarmed(part) for part in rendered] if plan.disarms else rendered


def section_of(
    kind: str, content: str | Sequence[PromptMessage], ids: Iterable[UUID] = (), *, clipped: bool = False
) -> Section:
    """Make a section of these messages, or of one in the user role; of none if its text is empty."""
    if isinstance(content, str):
        content = [PromptMessage("user", content)] if content else []
    tokens = sum(message.tokens(count_repeated) for message in content)
    text = "\n\n".join(LABELS[message.role] + message.text for message in content)
    text = content[0].content if len(content) == 1 else text
    return Section(kind, tokens, text, tuple(ids), clipped, tuple(content))


def _disarmed(part: Section) -> Section:
    """Return `part` with the control tokens of models broken up, and counted again."""
    messages = tuple(message.with_texts(disarm) for message in part.messages)
    if messages == part.messages:
        return part
    return section_of(part.kind, messages, part.message_ids, clipped=part.clipped)


def render_question(text: str, attachments: tuple[Attachment, ...]) -> Section:
    """Render the user's question, with the images and files that came with it."""
    return section_of("question", [PromptMessage("user", text, attachments=attachments)] if text else [])


def render_steps(steps: Sequence[Step], clips: Clips, *, disarms: bool) -> Section:
    """Render the open turn that follows the question, each step cut to its tokens in `clips` (empty: whole)."""
    cut = any(clip is not None for clip in clips)
    part = section_of("open_turn", step_messages(steps, clips), clipped=cut)
    return _disarmed(part) if disarms else part


def _state(plan: Plan, state: Sequence[StateSection]) -> Iterator[Section]:
    # Not strict: a stored plan can outlive a state that was erased, or may have shown none of it.
    for section, clip in zip(state, plan.state, strict=False):
        text = section.text if clip is None else clip_end(section.text, clip)
        if text:
            yield section_of(section.kind, [PromptMessage(section.role, text)], clipped=clip is not None)


def _lines(plan: Plan, by_seq: dict[int, Turn]) -> Section:
    turns = [by_seq[span.from_seq] for span in plan.lines if span.from_seq in by_seq]
    lines = [merged_text(*plan.merged)] if plan.merged else []
    lines += [line_text(turn, plan.line_tokens) for turn in turns]
    listed = quote_markers("\n".join(f"- {line}" for line in lines))
    return section_of("lines", f"{LINES_HEADING}\n{listed}" if lines else "", _ids(turns))


def _window(plan: Plan, shown: Sequence[tuple[Turn, Shown]]) -> Section:
    content: str | list[PromptMessage]
    if plan.turns_as == "text":
        content = turns_text(shown)
    else:
        content = [
            message
            for turn, as_shown in shown
            for message in turn_messages(turn, as_shown, attached=turn.from_seq in plan.attached)
        ]
    clipped = any(as_shown.clipped for _, as_shown in shown)
    return section_of("window", content, _ids(turn for turn, _ in shown), clipped=clipped)


def _recalled(plan: Plan, said: Mapping[int, RecalledMessage]) -> Section:
    quotes = [quote for quotes in plan.recalled for quote in quotes if quote.seq in said]
    ids = dict.fromkeys(said[quote.seq].id for quote in quotes)
    clipped = any(quote.end is not None for quote in quotes)
    return section_of("recall", render_excerpts(plan.recalled, said), ids, clipped=clipped)


def _ids(turns: Iterable[Turn]) -> list[UUID]:
    return [message_id for turn in turns for message_id in turn.message_ids]


# Lines, and the outline of the last reply (seed 002)


def merged_text(from_seq: int, through_seq: int, turns: int) -> str:
    """The single line that replaces all turns whose own lines have no room."""
    noun = "turn" if turns == 1 else "turns"
    return f"{turns} {noun} between messages {from_seq} and {through_seq}: not shown here."


def outline_sections(outline: str) -> list[StateSection]:
    """The section that shows `outline`; none for an empty one."""
    if not outline:
        return []
    return [StateSection("outline", clip_end(OUTLINE + quote_markers(outline), OUTLINE_TOKENS))]


OUTLINE: Final = "Previous response outline: "
"""Prefix of the outline, exactly as in seed 002."""


# Turns in full


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
    blocks: list[str] = []
    for turn, shown in pairs:
        user = _quoted(turn.user, shown.user_clip)
        assistant = _quoted(assistant_text(turn), shown.assistant_clip)
        sides = (LABELS["user"] + user if user else "", LABELS["assistant"] + assistant if assistant else "")
        blocks.append("\n".join(filter(None, sides)))
    return "\n\n".join([RECENT_HEADING, *filter(None, blocks)]) if any(blocks) else ""


def _quoted(text: str, clip: int | None) -> str:
    quoted = quote_markers(text)
    # Again after clipping: text from the middle of a line may now be at the start of one.
    return quoted if clip is None else quote_markers(clip_middle(quoted, clip))


def _clipped(text: str, clip: int | None) -> str:
    return text if clip is None else clip_middle(text, clip)


# Excerpts of earlier turns (`memory.recall.ranking` decides which)


LEFT_OUT = "[…]"
"""Marks where text of a message is left out."""


def render_excerpts(recalled: Sequence[Sequence[Quote]], said: Mapping[int, RecalledMessage]) -> str:
    """Render the message with the excerpts; "" if there is nothing to show.

    Those of one day follow its date, each message with its speaker. Messages that no longer exist are left out.
    """
    blocks: list[str] = []
    for quotes in recalled:
        lines: list[str] = []
        for seq, group in groupby(quotes, key=lambda quote: quote.seq):
            if seq in said and (text := _with_marks(said[seq].text, list(group))):
                lines += [] if lines else [f"[{said[seq].on}]"]
                lines.append(f"{said[seq].speaker}: {text}")
        blocks += ["\n".join(lines)] if lines else []
    return "\n\n".join([RECALL_HEADING, *blocks]) if blocks else ""


def _with_marks(text: str, quotes: Sequence[Quote]) -> str:
    if all(quote.end is None for quote in quotes):
        return quote_markers(text)
    pieces = f" {LEFT_OUT} ".join([text[quote.start : quote.end].strip() for quote in quotes])
    last = quotes[-1].end
    before = [LEFT_OUT] if quotes[0].start else []
    after = [LEFT_OUT] if last is not None and last < len(text) else []
    return quote_markers(" ".join([*before, pieces, *after]))


# Sources


_HEAD = re.compile(r"\[\s*[\do]+\s*\]")


@dataclass(frozen=True, slots=True)
class Source:
    """One retrieved text. The title may be empty."""

    title: str
    text: str


def render_sources(sources: Sequence[Source], clips: Sequence[int | None]) -> str:
    """The message that contains the sources; "" if none is shown. They keep the numbers they have in the request."""
    blocks = [
        block if clip is None else clip_end(block, clip)
        for block, clip in zip(
            source_blocks(sources), clips, strict=False
        )  # a stored plan can outlive its sources
        if clip != 0
    ]
    return "\n\n".join([SOURCES_HEADING, *blocks]) if blocks else ""


def source_blocks(sources: Sequence[Source]) -> list[str]:
    """Each source with its number and title."""
    blocks: list[str] = []
    for number, source in enumerate(sources, start=1):
        title = " ".join(source.title.split())
        head = f"[{number}] {title}".rstrip()
        if is_marker(head):  # like the head of an excerpt
            head = f"[{number}] > {title}"
        blocks.append(f"{head}\n{quote_lines(source.text, _is_taken)}")
    return blocks


def _is_taken(line: str) -> bool:
    """Whether a line of a source could be read as a marker or as the head of another source."""
    return is_marker(line) or _HEAD.match(line_skeleton(line)) is not None
