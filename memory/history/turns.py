"""Group messages into turns. A turn is a user message and all that follows until the next. Memory counts in turns.

Pure: no ORM, no clock, no network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any
from uuid import UUID

from chatmemory.llm.attachments import Attachment, attachments_in
from chatmemory.text.tokens import MESSAGE_OVERHEAD, clip_middle, count_tokens
from chatmemory.text.turn_line import CUT_OFF
from memory.history.tool_steps import Step, is_whole, output_text, step_tokens

_CUT_SHORT = frozenset({"incomplete", "cancelled"})


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """The columns of a `messages` row that memory needs. `content` may be "" when only counts were loaded."""

    id: UUID
    seq: int
    role: str
    """`user`, `assistant`, `tool_call` or `tool`."""
    status: str
    """`complete`, `incomplete`, `failed`, `cancelled` or `deleted`."""
    superseded: bool
    token_count: int
    """Tokens of `content`, without overhead."""
    content: str = ""
    line: str = ""
    """On a reply: the line for its turn, made when the turn was finished."""
    payload: Mapping[str, Any] | None = None
    """See `Message.payload`; None also if texts were not loaded."""


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
    steps: tuple[Step, ...] = ()
    """For a turn with tool calls: its messages after the question; empty if some are missing, or were not loaded."""
    attachments: tuple[Attachment, ...] = ()
    """Attachments of the user's messages; empty if texts were not loaded."""

    @property
    def tokens(self) -> int:
        """Tokens of both texts as counted when written, plus `MESSAGE_OVERHEAD` for each side that has text."""
        sides = (self.user_tokens > 0) + (self.assistant_tokens > 0)
        return self.user_tokens + self.assistant_tokens + sides * MESSAGE_OVERHEAD


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


def take_bite(turns: Sequence[Turn], max_tokens: int) -> list[Turn]:
    """Return the oldest turns that fit into `max_tokens` together, at least one if there is any.

    If the first turn with text does not fit, it is clipped in the middle so that it does. Texts must have been
    loaded.
    """
    bite: list[Turn] = []
    total = 0
    for turn in turns:
        if total + turn.tokens > max_tokens:
            return bite if total else [*bite, _clipped(turn, max_tokens)]
        bite.append(turn)
        total += turn.tokens
    return bite


def _turn(rows: Sequence[StoredMessage], through_seq: int) -> Turn:
    # One pass, because a prompt makes two hundred turns of rows whose texts were not loaded.
    users: list[StoredMessage] = []
    replies: list[StoredMessage] = []
    last_alive, line = None, ""
    for row in rows:
        has_text, is_user = _has_text(row), row.role == "user"
        if has_text:
            (users if is_user else replies).append(row)
        if row.role == "assistant" and (has_text or _is_live(row)):
            last_alive = row.id
        if row.line and not row.superseded:
            line = row.line
    return Turn(
        from_seq=rows[0].seq,
        through_seq=through_seq,
        user="\n\n".join([row.content for row in users if row.content]),
        assistant="\n\n".join([_text(row) for row in replies if row.content]),
        cut_off=any(row.status in _CUT_SHORT for row in replies),
        user_tokens=sum([row.token_count for row in users]),
        assistant_tokens=sum([step_tokens(row.role, row.token_count) for row in replies]),
        message_ids=tuple([row.id for row in (*users, *replies)]),
        last_assistant_id=last_alive,
        line=line,
        answer="\n\n".join([row.content for row in replies if row.content and row.role == "assistant"]),
        steps=_steps(rows),
        attachments=tuple([one for row in users if row.payload for one in attachments_in(row.payload)]),
    )


def _text(row: StoredMessage) -> str:
    return output_text(row.content) if row.role == "tool" else row.content


def _steps(rows: Sequence[StoredMessage]) -> tuple[Step, ...]:
    """The messages after the question, if tools were called and none of the calls or outputs is missing."""
    if not any(row.payload for row in rows if row.role != "user"):
        return ()
    alive = [row for row in rows if row.role != "user" and (_has_text(row) or _is_live(row))]
    steps = tuple(Step(row.role, row.content, row.payload) for row in alive)
    return steps if is_whole(steps) else ()


def _has_text(row: StoredMessage) -> bool:
    """Whether the row's text is part of its turn. Decided by the count as well: content may not have been loaded."""
    spoken = row.status == "complete" or row.status in _CUT_SHORT
    return spoken and not row.superseded and (row.token_count > 0 or bool(row.content))


def _is_live(row: StoredMessage) -> bool:
    return _has_text(row) or (row.status == "complete" and not row.superseded)


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
