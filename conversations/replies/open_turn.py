"""Open turns: a reply called tools, and waits for their outputs.

Between a call and its output no reply is being written, so the chat is not busy; but the turn is not over, and memory
does not fold it. It continues when all outputs are there, and ends with a reply that calls no tools, or when the user
says something else: then missing outputs are stored as missing, so that no call is ever without its output.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.utils import timezone

from chatmemory.errors import Conflict
from chatmemory.llm.protocol import ToolCall
from conversations.derived import derived_columns
from conversations.models import Chat, Message, Role, Status
from memory.history.turns import Step
from memory.turn import turn_closed

ABANDONED = "(No output: the conversation went on without it.)"
"""Stored as the output of a call whose output never came."""

Steps = tuple[tuple[int, Step], ...]
"""The messages of a turn after its question, as memory's values, by seq."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The output of a tool that was called, as text."""

    call_id: str
    content: str


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """A question and the messages that followed it so far."""

    question: Message
    rows: tuple[Message, ...]

    @classmethod
    def of(cls, question: Message, *later: Message) -> OpenTurn:
        """Return the turn of all these rows, without superseded, failed and deleted ones."""
        left_out = (Status.FAILED, Status.DELETED)
        return cls(
            question,
            tuple(one for one in later if one.superseded_by_id is None and one.status not in left_out),
        )

    @property
    def steps(self) -> Steps:
        return tuple((row.seq, Step(row.role, row.content, row.payload)) for row in self.rows)

    @property
    def waiting(self) -> dict[str, str]:
        """The names of the tools whose output is missing, by the ids of their calls."""
        missing: dict[str, str] = {}
        for row in self.rows:
            payload = row.payload or {}
            if row.role == Role.TOOL_CALL and payload:
                missing[payload["call_id"]] = payload["name"]
            elif row.role == Role.TOOL:
                missing.pop(payload.get("call_id", ""), None)
        return missing

    def until_last_output(self) -> OpenTurn:
        """Return this turn up to the last output of a tool."""
        last = max((at for at, row in enumerate(self.rows) if row.role == Role.TOOL), default=-1)
        return OpenTurn(self.question, self.rows[: last + 1])


def open_turn_of(chat: Chat) -> OpenTurn | None:
    """Return the open turn of `chat`, if it has one."""
    if not chat.open_seq:
        return None
    return OpenTurn.of(*Message.objects.filter(chat=chat, seq__gte=chat.open_seq).order_by("seq"))


def store_outputs(chat: Chat, outputs: Sequence[ToolOutput]) -> OpenTurn:
    """Store the outputs that the last turn of `chat` waits for. The caller has locked the chat, and saves its row.

    Raises `Conflict` unless they are the outputs of its calls, one each.
    """
    turn = open_turn_of(chat)
    waiting = turn.waiting if turn else {}
    if turn is None or sorted(one.call_id for one in outputs) != sorted(waiting):
        raise Conflict("These are not the outputs of the tools that the last reply called, one for each call.")
    return OpenTurn(turn.question, (*turn.rows, *_store(chat, outputs, waiting)))


def close(chat: Chat) -> None:
    """End the open turn of `chat`, if any: memory takes it as it is. The caller has locked the chat, as above."""
    turn = open_turn_of(chat)
    if turn is None:
        return
    waiting = turn.waiting
    _store(chat, [ToolOutput(call_id, ABANDONED) for call_id in waiting], waiting)
    chat.open_seq = 0
    chat.brief = turn_closed(chat.key)


def _store(chat: Chat, outputs: Sequence[ToolOutput], names: dict[str, str]) -> list[Message]:
    shown = [(one.content, {"call_id": one.call_id, "name": names[one.call_id]}) for one in outputs]
    rows = _rows(chat.pk, chat.owner_id, chat.last_seq, Role.TOOL, shown, timezone.now())
    chat.last_seq += len(rows)
    return Message.objects.bulk_create(rows)


def call_rows(reply: Message, calls: Sequence[ToolCall], owner_id: int) -> list[Message]:
    """Return the rows of the calls that `reply` makes, which follow it."""
    shown = [(call.text, call.payload) for call in calls]
    return _rows(reply.chat_id, owner_id, reply.seq, Role.TOOL_CALL, shown, reply.completed_at)


def _rows(
    chat_id: UUID,
    owner_id: int,
    after: int,
    role: Role,
    shown: Iterable[tuple[str, dict[str, Any]]],
    now: Any,
) -> list[Message]:
    """Return messages with these texts and payloads, which follow message `after`."""
    return [
        Message(
            chat_id=chat_id,
            owner_id=owner_id,
            seq=seq,
            role=role,
            content=content,
            payload=payload,
            status=Status.COMPLETE,
            created_at=now,
            completed_at=now,
            **derived_columns(content, role, owner_id),
        )
        for seq, (content, payload) in enumerate(shown, start=after + 1)
    ]


def calls_of(reply: Message) -> list[ToolCall]:
    """Return the calls that a stored reply makes, in order."""
    number = (reply.payload or {}).get("calls", 0)
    if not number:
        return []
    rows = Message.objects.filter(
        **reply.chat_key.columns, role=Role.TOOL_CALL, seq__gt=reply.seq, seq__lte=reply.seq + number
    ).order_by("seq")
    return [ToolCall.of(payload) for payload in rows.values_list("payload", flat=True) if payload]
