"""How every part of a prompt is written, sources, too; the plan, which says what of memory is shown; the snapshot.

The plan holds everything that settings decided. The same plan, texts and `RENDERER` give the same messages, byte for
byte. Nothing is decided here, and nothing else writes what a model is sent. The snapshot is all that is stored of a
prompt. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

from pydantic import BeforeValidator, InstanceOf, TypeAdapter

from chatmemory.config.declared import TurnsAs
from chatmemory.llm.protocol import PromptMessage, Role
from chatmemory.text import markers
from chatmemory.text.cleaning import disarm
from chatmemory.text.markers import indented
from chatmemory.text.tokens import clip_end, clip_middle, count_repeated
from chatmemory.text.turn_line import CUT_OFF
from memory.history.turns import (
    OUTLINE_TOKENS,
    OUTPUT_TOKENS,
    Step,
    Turn,
    assistant_text,
    line_text,
    step_messages,
)
from memory.pins.section import ShownPin, render_pins
from memory.policies.protocol import StateSection
from memory.recall.ranking import Quote, Recall, RecalledMessage

RENDERER = 12
"""Version of the rendering. Raise it with any change that renders the same plan differently."""
INDENTED_SINCE = 12
"""The version since which text that is not ours is indented. Before, its lines that look like ours were quoted."""

ALTERNATES_SINCE = 12
"""The version since which user and assistant alternate in Chat Completions, and tools without a last word are text."""


class TurnSpan(NamedTuple):
    """The seqs of one turn, both ends included."""

    from_seq: int
    through_seq: int


class Merged(NamedTuple):
    """The turns that the merged line replaces: their span and their number."""

    from_seq: int
    through_seq: int
    turns: int


class Shown(NamedTuple):
    """A turn that is sent verbatim. A clip is the tokens to which a side is cut in its middle; None: whole."""

    from_seq: int
    through_seq: int
    user_clip: int | None = None
    assistant_clip: int | None = None

    @property
    def clipped(self) -> bool:
        """True if either side is cut."""
        return self.user_clip is not None or self.assistant_clip is not None


Clips = tuple[int | None, ...]
"""One entry per section or source: the number of tokens to which its end is cut; None: whole; 0: left out."""


class ChatQuotes(NamedTuple):
    """Excerpts of another chat, in order."""

    chat: str
    quotes: tuple[Quote, ...]


def _in_three_parts(quotes: Any) -> Any:
    """An older version stored a fourth part of each quote."""
    return [quote[:3] for quote in quotes]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a prompt shows of memory. Spans are in order of seq; no turn is shown both as a line and verbatim."""

    budget: int
    turns_as: TurnsAs = "messages"
    state: Clips = ()
    merged: Merged | None = None
    lines: tuple[TurnSpan, ...] = ()
    line_tokens: int = 0
    """Tokens to which each line is cut to make room for excerpts; 0: lines are not cut."""
    verbatim: tuple[Shown, ...] = ()
    recalled: tuple[Annotated[tuple[Quote, ...], BeforeValidator(_in_three_parts)], ...] = ()
    """Excerpts of earlier messages, in order, grouped by day. Lines of the same turns may be shown, too."""
    recall: Recall | None = None
    """Why these excerpts were chosen, or none; None: unknown, for a prompt made by an older version."""
    elsewhere: tuple[ChatQuotes, ...] = ()
    """Excerpts of the owner's other chats, in the order in which they began."""
    elsewhere_recall: Recall | None = None
    """Why other chats were searched, or not; None: this chat shares nothing that was said."""
    sources: Clips = ()
    unrepresented: int = 0
    """Finished turns that appear neither as text nor as a line, whether or not recall quotes one of them."""
    dropped: int = 0
    """Turns of the window that are not verbatim, for lack of room."""
    anchor_seq: int = 0
    """Seq at which the verbatim part begins. Pass it to the next plan, which keeps it as long as possible."""
    outline_of: str = ""
    """Id of the reply whose outline is shown after the state; "": no outline."""
    pins: tuple[ShownPin, ...] = ()
    """Pins that are shown, newest first."""
    pins_left_out: int = 0
    """Pins that hold but have no room."""
    disarms: bool = False
    """Whether control tokens of models are broken up in text that is not ours (`chatmemory.text.cleaning`)."""
    open_turn: tuple[int, ...] = ()
    """Seqs of the messages that follow the question in its own turn, if that continues after tool calls."""
    open_clips: Clips = ()
    """The tokens that each of these messages keeps of its text; empty: all are whole."""
    attached: tuple[int, ...] = ()
    """First seqs of the turns in the window whose images and files are sent along."""
    refused_tokens: int = 0
    """Tokens of the prompt that the model's server had found too long before this one; 0: there was none."""
    free: int = field(default=0, compare=False)
    """Tokens that were available to excerpts. Not stored."""
    renderer: int = RENDERER

    @property
    def clipped(self) -> int:
        """Number of parts that are cut: turns, sections of state, sources, pins, steps of the open turn."""
        ends = sum(clip is not None for clip in (*self.state, *self.sources, *self.open_clips))
        pins = sum(pin.clip is not None for pin in self.pins)
        return ends + pins + sum(shown.clipped for shown in self.verbatim)

    @property
    def missing(self) -> Literal["nothing", "cut", "left_out"]:
        """How much had no room: nothing, some text, or whole turns and pins."""
        if self.unrepresented or self.pins_left_out:
            return "left_out"
        return "cut" if self.clipped or self.dropped else "nothing"

    @property
    def verbatim_seqs(self) -> frozenset[int]:
        """Seqs of all messages of the turns that are verbatim."""
        return frozenset(seq for one in self.verbatim for seq in range(one.from_seq, one.through_seq + 1))

    def to_json(self) -> dict[str, Any]:
        """The plan as a JSON object, without fields that have their default."""
        stored = _PLAN.dump_python(self, mode="json", exclude={"free"}, exclude_defaults=True)
        return {**stored, "renderer": self.renderer}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """Return the plan that this or an older version stored. Raise `ValueError` for anything else."""
        return _PLAN.validate_python(data)


_PLAN = TypeAdapter(Plan)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a prompt. `tokens` are counted as rendered, including message overhead."""

    kind: str
    tokens: int
    text: str = ""
    """Not stored."""
    message_ids: tuple[UUID, ...] = ()
    clipped: bool = False
    messages: tuple[InstanceOf[PromptMessage], ...] = ()
    """The messages that contain it; none for instructions, tools and attachments. Not stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The stored record of one prompt: how it is made of stored texts, its counts, and the hash that proves it."""

    revision: int
    """The version of the memory that was in use; 0: none."""
    policy: str
    plan: Plan
    sections: tuple[Section, ...]
    tokens: int
    """Tokens of memory in the prompt."""
    instructions_hash: str = ""
    """This and the next three are hashes of texts that are stored nowhere else (`ContextText`); "": there is none."""
    turn_instructions_hash: str = ""
    sources_hash: str = ""
    tools_hash: str = ""
    prompt_hash: str
    history_tokens: int | None = None
    """Tokens of the chat before the question; None if they were never counted."""
    anchor_before: int = 0
    """The brief's `anchor_seq` when the turn began."""
    again: bool = False
    """The question was answered before."""
    card_epoch: int | None = None
    """The brief's epoch when the turn began, if its reply is to bring a memory card; None: it is not."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the whole prompt, by our own count."""
        return sum(section.tokens for section in self.sections)

    def columns(self) -> dict[str, Any]:
        """The columns of the record of a finished reply (`ContextRecord`), except what became of its card."""
        stored = {name: value for name, value in self.to_json().items() if name not in _OF_THE_TURN}
        return stored | {name: getattr(self.plan, name) for name in _OF_THE_PLAN}

    def to_json(self) -> dict[str, Any]:
        """The snapshot as a JSON object, which is kept while the reply is being written."""
        stored = _SNAPSHOT.dump_python(
            self, mode="json", exclude={"plan": True, "sections": {"__all__": {"text", "messages"}}}
        )
        return {**stored, "plan": self.plan.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Snapshot:
        """Return the snapshot that `to_json` or `columns` wrote, or an older version. Raise `ValueError` for others."""
        return _SNAPSHOT.validate_python(data)


_OF_THE_TURN = frozenset({"anchor_before", "again", "card_epoch"})
"""Fields that are known only while the reply is being written."""
_OF_THE_PLAN = ("budget", "unrepresented", "clipped", "dropped")
_SNAPSHOT = TypeAdapter(Snapshot)


# How a plan is written, with the texts it names, as messages and sections


LABELS: dict[Role, str] = {"user": "User: ", "assistant": "Assistant: ", "tool": "Tool: "}


def render_memory(
    plan: Plan,
    state: Sequence[StateSection],
    turns: Sequence[Turn],
    quoted: Mapping[int, RecalledMessage],
    pinned: Mapping[str, str] | None = None,
) -> list[Section]:
    """Render pins, state, lines, verbatim turns and excerpts as `plan` says, in the order of the prompt.

    Empty parts are left out. `quoted` are the messages of which there are excerpts, `pinned` the texts of pins by id.
    """
    by_seq = {turn.from_seq: turn for turn in turns}
    pins_cut = bool(plan.pins_left_out) or any(pin.clip is not None for pin in plan.pins)
    parts = [
        section_of("pins", render_pins(plan.pins, plan.pins_left_out, pinned or {}), clipped=pins_cut),
        *_state(plan, state),
        _lines(plan, by_seq),
        _window(plan, [(by_seq[one.from_seq], one) for one in plan.verbatim if one.from_seq in by_seq]),
        _recalled(plan, quoted),
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


def render_steps(steps: Sequence[Step], clips: Clips, *, disarms: bool) -> Section:
    """Render the open turn that follows the question, each step cut to its tokens in `clips` (empty: whole)."""
    cut = any(clip is not None for clip in clips)
    part = section_of("open_turn", step_messages(steps, clips, with_reasoning=True), clipped=cut)
    return _disarmed(part) if disarms else part


def _state(plan: Plan, state: Sequence[StateSection]) -> Iterator[Section]:
    # Not strict: a stored plan can outlive a state that was erased, or may have shown none of it.
    for section, clip in zip(state, plan.state, strict=False):
        text = section.shown if plan.renderer >= INDENTED_SINCE else section.text
        text = text if clip is None else clip_end(text, clip)
        if text:
            yield section_of(section.kind, [PromptMessage(section.role, text)], clipped=clip is not None)


def _lines(plan: Plan, by_seq: dict[int, Turn]) -> Section:
    turns = [by_seq[span.from_seq] for span in plan.lines if span.from_seq in by_seq]
    lines = [merged_text(*plan.merged)] if plan.merged else []
    lines += [line_text(turn, plan.line_tokens) for turn in turns]
    listed = "\n".join(f"- {line}" for line in lines)
    listed = listed if plan.renderer >= INDENTED_SINCE else markers.quote_markers(listed)
    return section_of("lines", f"{markers.LINES_HEADING}\n{listed}" if lines else "", _ids(turns))


def _window(plan: Plan, shown: Sequence[tuple[Turn, Shown]]) -> Section:
    content: str | list[PromptMessage]
    if plan.turns_as == "text":
        content = turns_text(shown, plan.renderer)
    else:
        content = [
            message
            for turn, as_shown in shown
            for message in turn_messages(
                turn, as_shown, attached=turn.from_seq in plan.attached, renderer=plan.renderer
            )
        ]
    clipped = any(as_shown.clipped for _, as_shown in shown)
    return section_of("window", content, _ids(turn for turn, _ in shown), clipped=clipped)


def _recalled(plan: Plan, quoted: Mapping[int, RecalledMessage]) -> Section:
    quotes = [quote for quotes in plan.recalled for quote in quotes if quote.seq in quoted]
    ids = dict.fromkeys(quoted[quote.seq].id for quote in quotes)
    clipped = any(quote.end is not None for quote in quotes)
    return section_of("recall", render_excerpts(plan.recalled, quoted, plan.renderer), ids, clipped=clipped)


def _ids(turns: Iterable[Turn]) -> list[UUID]:
    return [message_id for turn in turns for message_id in turn.message_ids]


# Lines, and the outline of the last reply (seed 002)


def merged_text(from_seq: int, through_seq: int, turns: int) -> str:
    """The single line that replaces all turns whose own lines have no room."""
    noun = "turn" if turns == 1 else "turns"
    return f"{turns} {noun} between messages {from_seq} and {through_seq}: not shown here."


def outline_sections(outline: str, renderer: int = RENDERER) -> list[StateSection]:
    """The section that shows `outline`; none for an empty one."""
    if not outline:
        return []
    text = f"Previous response outline: {_quoted(outline, renderer)}"  # the prefix exactly as in seed 002
    return [StateSection("outline", clip_end(text, OUTLINE_TOKENS), is_ours=True)]


# Turns in full


def turn_messages(turn: Turn, shown: Shown, *, attached: bool = False, renderer: int = RENDERER) -> list[PromptMessage]:
    """Render the turn as messages in their own roles. A side without text sends none.

    With `attached`, its images and files are sent, too. Tool calls are sent as such if the turn is whole and ended with
    words. Otherwise they are on the user's side: a model that reads calls in its own words writes them as words, and
    many templates want the assistant's words between an output and the next question.
    """
    attachments, question = turn.attachments if attached else (), _clipped(turn.user, shown.user_clip)
    is_whole = bool(turn.steps) and not turn.cut_off and shown.assistant_clip is None
    if is_whole and (turn.steps[-1].role == "assistant" or renderer < ALTERNATES_SINCE):
        clips = [OUTPUT_TOKENS if step.role == "tool" else None for step in turn.steps]
        replies = step_messages(turn.steps, clips)
    else:
        answer, tools = _assistant_sides(turn, shown.assistant_clip, renderer)
        question = "\n\n".join(filter(None, (question, tools)))
        replies = [PromptMessage("assistant", answer)] if answer else []
    return [PromptMessage("user", question, attachments=attachments), *replies] if question else replies


def _assistant_sides(turn: Turn, clip: int | None, renderer: int) -> tuple[str, str]:
    """The assistant's text and, as a section of text, its tool calls, both within `clip` tokens."""
    if renderer < ALTERNATES_SINCE:
        return _clipped(assistant_text(turn), clip), ""
    answer, tools = turn.answer if turn.tools else turn.assistant, turn.tools
    if clip is not None:
        room = max(0, clip - count_repeated(answer))
        answer, tools = clip_middle(answer, clip), clip_middle(tools, room) if room else ""
    ending = f"\n{CUT_OFF}" if turn.cut_off else ""
    if answer:
        answer += ending
    if tools:
        tools = indented(f"{markers.TOOLS_HEADING}\n{tools}") + ("" if answer else ending)
    return answer, tools


def turns_text(pairs: Sequence[tuple[Turn, Shown]], renderer: int = RENDERER) -> str:
    """Render all turns as one block, in the format of seed 000; "" if there is nothing to show."""
    blocks: list[str] = []
    for turn, shown in pairs:
        user = _quoted(turn.user, renderer, shown.user_clip)
        assistant = _quoted(assistant_text(turn), renderer, shown.assistant_clip)
        sides = (LABELS["user"] + user if user else "", LABELS["assistant"] + assistant if assistant else "")
        blocks.append("\n".join(filter(None, sides)))
    return "\n\n".join([markers.RECENT_HEADING, *filter(None, blocks)]) if any(blocks) else ""


def _quoted(text: str, renderer: int, clip: int | None = None) -> str:
    """Text that is not ours, such that no line of it can be taken for ours."""
    if renderer >= INDENTED_SINCE:
        return _clipped(indented(text), clip)
    # Again after clipping: text from the middle of a line may now be at the start of one.
    return markers.quote_markers(_clipped(markers.quote_markers(text), clip))


def _clipped(text: str, clip: int | None) -> str:
    return text if clip is None else clip_middle(text, clip)


# Excerpts of earlier turns (`memory.recall.ranking` decides which)


LEFT_OUT = "[…]"
"""Marks where text of a message is left out."""


def render_excerpts(
    recalled: Sequence[Sequence[Quote]], quoted: Mapping[int, RecalledMessage], renderer: int = RENDERER
) -> str:
    """Render the message with the excerpts; "" if there is nothing to show.

    Those of one day follow its date, each message with its speaker. Messages that no longer exist are left out.
    """
    blocks = [block for quotes in recalled if (block := _day_text(quotes, quoted, renderer=renderer))]
    return "\n\n".join([markers.RECALL_HEADING, *blocks]) if blocks else ""


def _day_text(
    quotes: Iterable[Quote], quoted: Mapping[int, RecalledMessage], title: str = "", renderer: int = RENDERER
) -> str:
    """Render the excerpts of one day below its date and this title; "" if there is nothing to show."""
    head, lines = "", list[str]()
    for seq, group in groupby(quotes, key=lambda quote: quote.seq):
        if seq in quoted and (text := _with_marks(quoted[seq].text, list(group))):
            head = head or f"[{quoted[seq].on}] {' '.join(title.split())}".rstrip()
            lines.append(f"{quoted[seq].speaker}: {_quoted(text, renderer)}")
    return "\n".join([head, *lines]) if lines else ""


@dataclass(frozen=True, slots=True)
class QuotedChat:
    """Another chat of the owner, with those of its messages that are quoted, by seq."""

    title: str
    messages: dict[int, RecalledMessage]


def elsewhere_section(
    elsewhere: Sequence[ChatQuotes], chats: Mapping[str, QuotedChat], *, disarms: bool = False
) -> Section:
    """Make the section with the excerpts of other chats. Chats and messages that no longer exist are left out.

    Those of one day of a chat follow the date and the chat's title.
    """
    blocks: list[str] = []
    ids: dict[UUID, None] = {}
    for one in elsewhere:
        if (chat := chats.get(one.chat)) is None:
            continue
        messages = chat.messages
        there = [quote for quote in one.quotes if quote.seq in messages]
        ids |= dict.fromkeys(messages[quote.seq].id for quote in there)
        for _, of_day in groupby(there, key=lambda quote: messages[quote.seq].on):
            blocks.append(_day_text(of_day, messages, chat.title))
    text = "\n\n".join([markers.ELSEWHERE_HEADING, *filter(None, blocks)]) if any(blocks) else ""
    clipped = any(quote.end is not None for one in elsewhere for quote in one.quotes)
    section = section_of("elsewhere", text, ids, clipped=clipped)
    return _disarmed(section) if disarms else section


def _with_marks(text: str, quotes: Sequence[Quote]) -> str:
    if all(quote.end is None for quote in quotes):
        return text
    pieces = f" {LEFT_OUT} ".join([text[quote.start : quote.end].strip() for quote in quotes])
    last = quotes[-1].end
    before = [LEFT_OUT] if quotes[0].start else []
    after = [LEFT_OUT] if last is not None and last < len(text) else []
    return " ".join([*before, pieces, *after])


# Sources


_HEAD = re.compile(r"\[\s*[\do]+\s*\]")


@dataclass(frozen=True, slots=True)
class Source:
    """One retrieved text. The title may be empty."""

    title: str
    text: str


def render_sources(sources: Sequence[Source], clips: Sequence[int | None], renderer: int = RENDERER) -> str:
    """The message that contains the sources; "" if none is shown. They keep the numbers they have in the request."""
    blocks = [
        block if clip is None else clip_end(block, clip)
        for block, clip in zip(
            source_blocks(sources, renderer), clips, strict=False
        )  # a stored plan can outlive its sources
        if clip != 0
    ]
    return "\n\n".join([markers.SOURCES_HEADING, *blocks]) if blocks else ""


def source_blocks(sources: Sequence[Source], renderer: int = RENDERER) -> list[str]:
    """Each source with its number and title."""
    blocks: list[str] = []
    for number, source in enumerate(sources, start=1):
        title = " ".join(source.title.split())
        head = f"[{number}] {title}".rstrip()
        if renderer >= INDENTED_SINCE:
            blocks.append(indented(f"{head}\n{source.text}"))
            continue
        if markers.is_marker(head):  # like the head of an excerpt
            head = f"[{number}] > {title}"
        blocks.append(f"{head}\n{markers.quote_markers(source.text, _is_taken)}")
    return blocks


def _is_taken(line: str) -> bool:
    """Whether a line of a source could be read as a marker or as the head of another source."""
    return markers.is_marker(line) or _HEAD.match(markers.line_skeleton(line)) is not None
