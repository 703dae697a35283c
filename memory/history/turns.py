"""Turns: messages grouped by question, the texts of each side as models read them, and what they cost. Pure.

A turn is a user message and all that follows until the next. Memory counts in turns. No ORM, no clock, no network.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any, Final, NamedTuple
from uuid import UUID

from chatmemory.config.declared import TurnsAs
from chatmemory.llm.attachments import Attachment, attachments_in
from chatmemory.llm.protocol import CALL_OVERHEAD, PromptMessage, ToolCall
from chatmemory.text.markers import RECENT_HEADING
from chatmemory.text.thoughts import visible_text
from chatmemory.text.tokens import (
    MESSAGE_OVERHEAD,
    clip_end,
    clip_middle,
    count_repeated,
    count_tokens,
    heading_cost,
)
from chatmemory.text.turn_line import CUT_OFF

_CUT_SHORT = frozenset({"incomplete", "cancelled"})


class StoredMessage(NamedTuple):
    """The columns of a `messages` row that memory needs."""

    id: UUID
    seq: int
    role: str
    """`user`, `assistant`, `tool_call` or `tool`."""
    status: str
    """`complete`, `incomplete`, `failed`, `cancelled` or `deleted`."""
    superseded_by_id: UUID | None
    token_count: int
    """Tokens of `content`, without overhead."""
    line: str = ""
    """On a reply: the line for its turn, made when the turn was finished."""
    content: str | None = None
    """None if only counts were loaded, as also for what follows."""
    payload: Mapping[str, Any] | None = None
    """See `Message.payload`."""
    created_at: datetime | None = None

    @classmethod
    def of(cls, row: Any, *, text: bool = True) -> StoredMessage:
        """Return the message of a row, without its text if that is not loaded."""
        return cls(*(getattr(row, name) for name in (cls._fields if text else COUNTS)))

    @property
    def has_text(self) -> bool:
        """Whether its text is part of its turn. Decided by the count as well: the text may not have been loaded."""
        spoken = self.status == "complete" or self.status in _CUT_SHORT
        return spoken and self.superseded_by_id is None and (self.token_count > 0 or bool(self.content))

    @property
    def is_live(self) -> bool:
        """Whether it is part of its turn, perhaps without a text."""
        return self.has_text or (self.status == "complete" and self.superseded_by_id is None)


COUNTS = StoredMessage._fields[:7]
"""The columns that are read when no text is needed."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn. There are no gaps between its span of seqs and those of its neighbours, so spans join into coverage."""

    from_seq: int
    through_seq: int
    user: str
    assistant: str
    """The assistant's text, with its tool calls and their outputs."""
    cut_off: bool
    user_tokens: int
    assistant_tokens: int
    message_ids: tuple[UUID, ...]
    """Messages whose text is in this turn: the user's first, then the others, each in order."""
    last_assistant_id: UUID | None
    line: str = ""
    answer: str = ""
    """The assistant's text without tool calls and outputs."""
    tools: str = ""
    """The tool calls and their outputs, as text."""
    steps: tuple[Step, ...] = ()
    """For a turn with tool calls: its messages after the question; empty if some are missing, or were not loaded."""
    attachments: tuple[Attachment, ...] = ()
    """Attachments of the user's messages; empty if texts were not loaded, as is the time of the first message."""
    said_at: datetime | None = None

    @property
    def tokens(self) -> int:
        """Tokens of both texts as counted when written, plus `MESSAGE_OVERHEAD` for each side that has text."""
        sides = (self.user_tokens > 0) + (self.assistant_tokens > 0)
        return self.user_tokens + self.assistant_tokens + sides * MESSAGE_OVERHEAD

    @property
    def without_text(self) -> Turn:
        """The same as if only counts had been loaded."""
        if not (self.user or self.assistant):
            return self
        return replace(self, user="", assistant="", answer="", tools="", steps=(), attachments=())


@dataclass(frozen=True, slots=True)
class Batch:
    """The oldest turns that fit into one request to a summarizer, and these as it is shown them: a giant is clipped."""

    turns: tuple[Turn, ...]
    shown: tuple[Turn, ...]

    @classmethod
    def of(cls, turns: Sequence[Turn], max_tokens: int) -> Batch:
        """The oldest of `turns` that fit into `max_tokens` together, at least one if there is any.

        If the first turn with text does not fit, it is clipped in the middle so that it does. Texts must have been
        loaded.
        """
        shown: list[Turn] = []
        left = max_tokens
        for turn in turns:
            if turn.tokens > left:
                shown += [_clipped(turn, max_tokens)] if left == max_tokens else []
                break
            shown.append(turn)
            left -= turn.tokens
        return cls(tuple(turns[: len(shown)]), tuple(shown))


def last_assistant_id(turns: Sequence[Turn]) -> UUID | None:
    """The id of the last assistant message among `turns`; None if there is none."""
    ids = (turn.last_assistant_id for turn in reversed(turns))
    return next((message_id for message_id in ids if message_id), None)


def to_turns(messages: Sequence[StoredMessage]) -> list[Turn]:
    """Group messages (in order of seq) into turns.

    A turn begins at a user message, whatever its status, and extends to the next. Messages before the first user
    message (a greeting) are a turn without a user side. Texts of failed, superseded or deleted messages are left out
    but stay in the span; a turn in which no text is left has 0 tokens.
    """
    starts = [i for i, row in enumerate(messages) if i == 0 or row.role == "user"]
    return [
        _turn(messages[start:end], messages[end].seq - 1 if end < len(messages) else messages[-1].seq)
        for start, end in pairwise([*starts, len(messages)])
    ]


def assistant_text(turn: Turn) -> str:
    """The assistant's side as a model is sent it: marked if it was cut off."""
    if turn.cut_off and turn.assistant:
        return f"{turn.assistant}\n{CUT_OFF}"
    return turn.assistant


def before_window(turns: Sequence[Turn], window_turns: int) -> int:
    """The number of `turns` before the newest `window_turns` that have text."""
    missing = window_turns
    for index in range(len(turns) - 1, -1, -1):
        if missing <= 0:
            return index + 1
        missing -= turns[index].tokens > 0
    return 0


def _turn(rows: Sequence[StoredMessage], through_seq: int) -> Turn:
    # One pass, because a prompt makes two hundred turns of rows whose texts were not loaded.
    users: list[StoredMessage] = []
    replies: list[StoredMessage] = []
    last_alive, line = None, ""
    for row in rows:
        if row.has_text:
            (users if row.role == "user" else replies).append(row)
        if row.role == "assistant" and row.is_live:
            last_alive = row.id
        if row.line and row.superseded_by_id is None:
            line = row.line
    return Turn(
        from_seq=rows[0].seq,
        through_seq=through_seq,
        user="\n\n".join([row.content for row in users if row.content]),
        assistant="\n\n".join([_text(row.role, row.content) for row in replies if row.content]),
        cut_off=any(row.status in _CUT_SHORT for row in replies),
        user_tokens=sum([row.token_count for row in users]),
        assistant_tokens=sum([step_tokens(row.role, row.token_count) for row in replies]),
        message_ids=tuple([row.id for row in (*users, *replies)]),
        last_assistant_id=last_alive,
        line=line,
        answer="\n\n".join([visible_text(row.content) for row in replies if row.content and row.role == "assistant"]),
        tools="\n\n".join([_text(row.role, row.content) for row in replies if row.content and row.role != "assistant"]),
        steps=_steps(rows),
        attachments=tuple([one for row in users if row.payload for one in attachments_in(row.payload)]),
        said_at=rows[0].created_at,
    )


def _text(role: str, content: str) -> str:
    if role == "tool":
        return RESULT + clip_middle(content, OUTPUT_TOKENS)
    return visible_text(content, role)


def _steps(rows: Sequence[StoredMessage]) -> tuple[Step, ...]:
    """The messages after the question, if tools were called and none of the calls or outputs is missing."""
    replies = [row for row in rows if row.role != "user"]
    if not any(row.payload for row in replies):
        return ()
    steps = tuple(
        Step(row.role, visible_text(row.content or "", row.role), row.payload) for row in replies if row.is_live
    )
    return steps if is_whole(steps) else ()


def _clipped(turn: Turn, max_tokens: int) -> Turn:
    sides = (turn.user_tokens > 0) + (turn.assistant_tokens > 0)
    room = max(0, max_tokens - sides * MESSAGE_OVERHEAD)
    half = room // 2
    for_user = max(min(turn.user_tokens, half), room - turn.assistant_tokens)
    user = clip_middle(turn.user, for_user)
    assistant = clip_middle(turn.assistant, room - for_user)
    return replace(
        turn,
        user=user,
        assistant=assistant,
        user_tokens=count_tokens(user),
        assistant_tokens=count_tokens(assistant),
        steps=(),
    )


# Steps of a turn between its question and its last reply: replies with tool calls, calls, and outputs
#
# A finished turn is rendered as text when it is folded or clipped; otherwise the model is sent its steps, each output
# cut to `OUTPUT_TOKENS`. An open turn is sent in full as long as it fits its own budget (`memory.context.prompt`).


OUTPUT_TOKENS: Final = 400
"""Tokens of an output, from its start and its end, that a finished turn keeps. Recall searches all of it."""
MARK_TOKENS: Final = 16
"""Tokens that are left of a text of which hardly more than the mark of the cut is to be seen."""
RESULT: Final = "Result: "
"""Prefix of an output when a turn is rendered as text."""
RESULT_TOKENS: Final = 3


class Step(NamedTuple):
    """One message of a turn after the question."""

    role: str
    """`assistant`, `tool_call` or `tool`."""
    content: str
    payload: Mapping[str, Any] | None = None
    """See `Message.payload`."""


def step_tokens(role: str, tokens: int) -> int:
    """The tokens that a message of `tokens` adds to its turn, whether rendered as text or as a step."""
    if role == "tool":
        return min(tokens, OUTPUT_TOKENS) + RESULT_TOKENS + MESSAGE_OVERHEAD
    return tokens + (CALL_OVERHEAD if role == "tool_call" else 0)


def is_whole(steps: Sequence[Step]) -> bool:
    """Whether each call is followed by exactly one output, and each output follows its call: providers require it."""
    return len(whole_part(steps)) == len(steps)


def _clipped_call(call: ToolCall, limit: int) -> ToolCall:
    """Return `call` with its arguments cut to `limit` tokens. JSON stays JSON, because some providers parse it."""
    if count_repeated(call.arguments) <= limit:
        return call
    if call.is_custom:
        return replace(call, arguments=clip_middle(call.arguments, limit))
    try:
        given = json.loads(call.arguments)
    except (ValueError, RecursionError):
        given = None
    short: dict[str, Any] = {}
    if isinstance(given, dict):
        for name, value in given.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            short[name] = value if count_repeated(text) <= MARK_TOKENS else clip_middle(text, MARK_TOKENS)
    arguments = json.dumps(short, ensure_ascii=False)
    return replace(call, arguments=arguments if count_repeated(arguments) <= limit else "{}")


def whole_part(steps: Sequence[Step]) -> list[int]:
    """Return the indexes of all steps but calls without an output and outputs without a call: one may be deleted."""
    kept: set[int] = set()
    waiting: dict[str, int] = {}
    for at, step in enumerate(steps):
        call_id = (step.payload or {}).get("call_id", "")
        if step.role == "assistant":
            kept.add(at)
            waiting.clear()
        elif step.role == "tool_call" and call_id:
            waiting[call_id] = at
        elif call_id in waiting:
            kept |= {waiting.pop(call_id), at}
    return sorted(kept)


def step_messages(
    steps: Sequence[Step], clips: Sequence[int | None] = (), *, with_reasoning: bool = False
) -> list[PromptMessage]:
    """Render the steps as messages for a model, each cut to its tokens in `clips` (empty: all whole).

    Only a turn that is still open needs the model's thoughts before its calls; a call that is cut loses them.
    """
    clips = clips or [None] * len(steps)
    messages: list[PromptMessage] = []
    for at in whole_part(steps):
        step, clip = steps[at], clips[at]
        if clip == 0:
            continue
        text = step.content if clip is None else clip_middle(step.content, clip)
        payload = step.payload or {}
        if step.role == "tool":
            messages.append(PromptMessage("tool", text, call_id=payload.get("call_id", "")))
        elif step.role == "tool_call":
            call = ToolCall.of(payload)
            if not messages or messages[-1].role != "assistant":
                messages.append(PromptMessage("assistant", ""))
            call = call if with_reasoning and clip is None else call.without_reasoning
            call = call if clip is None else _clipped_call(call, clip)
            messages[-1] = replace(messages[-1], calls=(*messages[-1].calls, call))
        else:
            messages.append(PromptMessage("assistant", text))
    return [message for message in messages if message.content or message.calls or message.role == "tool"]


# What turns cost in a prompt: as a line, as an outline, verbatim


MERGED_TOKENS = 24
"""An upper bound of the merged line's tokens, for seqs of up to nine digits."""
AROUND_LINE = 2
"""Tokens around a line: its bullet and its newline."""


def line_text(turn: Turn, limit: int = 0) -> str:
    """The turn's line without newlines, cut to `limit` tokens if that is not 0.

    For a turn without a stored line it is a placeholder with the turn's message numbers.
    """
    stored = " ".join(turn.line.split())
    if not stored:
        return f"Messages {turn.from_seq} to {turn.through_seq} (not shown here)"
    return clip_end(stored, limit) if limit else stored


def line_cost(line: str) -> int:
    """Tokens of one line with its bullet and its newline. The counter of a chat's lines is the sum of these."""
    return count_repeated(f"- {line}") + 1


OUTLINE_TOKENS: Final = 104
"""The longest outline with its prefix: 400 characters are about 100 tokens (seed 002), but not always."""
OUTLINE_COST: Final = OUTLINE_TOKENS + MESSAGE_OVERHEAD
"""Maximum tokens that an outline costs in a prompt."""

CUT_OFF_TOKENS = 6
"""An upper bound of the tokens of the mark of a reply that was cut off."""


def turn_cost(turn: Turn) -> int:
    """Tokens of the turn as planned. For turns sent as text, message overhead stands in for labels and newlines."""
    return turn.tokens + (CUT_OFF_TOKENS if turn.cut_off else 0)


def verbatim_head_cost(turns_as: TurnsAs) -> int:
    """Tokens of the message around turns that are sent as text; 0 if turns are sent as messages."""
    return heading_cost(RECENT_HEADING) if turns_as == "text" else 0
