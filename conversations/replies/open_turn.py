"""A turn that goes on: a reply called tools, and waits for what they give back.

Between a call and its output nothing is being written, so the chat is not busy; but the turn is not over, and memory
leaves it alone. It goes on when all outputs are there, and ends with a reply that calls nothing, or when the user says
something else: then what is missing is written down as missing, so that no call is ever without its output.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from chatmemory.errors import Conflict
from chatmemory.llm.protocol import ToolCall
from chatmemory.text.tokens import count_tokens
from conversations.models import Chat, Message, Role, Status
from memory import services as memory
from memory.history.tool_steps import Step
from memory.recall.analysis.terms import stored_terms

ABANDONED = "(No output: the conversation went on without it.)"
"""What is stored for a call whose output never came."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool that was called gave back, as text."""

    call_id: str
    content: str


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """A question and what followed it so far."""

    question: Message
    rows: tuple[Message, ...]

    @property
    def last_seq(self) -> int:
        """Of the last message of it."""
        return self.rows[-1].seq if self.rows else self.question.seq

    @property
    def steps(self) -> tuple[tuple[int, Step], ...]:
        """As memory has them, by seq."""
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


def open_turn_of(chat: Chat) -> OpenTurn | None:
    """The turn of `chat` that goes on, if one does."""
    return turn_from(chat, chat.open_seq) if chat.open_seq else None


def turn_from(chat: Chat, question_seq: int) -> OpenTurn:
    """The last turn of `chat`, which begins at `question_seq`: what stands of it."""
    rows = Message.objects.filter(chat=chat, seq__gte=question_seq, superseded_by=None).order_by("seq")
    question, *later = rows
    return OpenTurn(
        question, tuple(row for row in later if row.status not in (Status.FAILED, Status.DELETED))
    )


def through_tools(turn: OpenTurn) -> OpenTurn:
    """`turn` up to the last output of a tool."""
    last = max((at for at, row in enumerate(turn.rows) if row.role == Role.TOOL), default=-1)
    return OpenTurn(turn.question, turn.rows[: last + 1])


def go_on(chat: Chat, outputs: Sequence[ToolOutput]) -> OpenTurn:
    """Store the outputs that the last turn of `chat` waits for. The chat is locked; its row is the caller's to save.

    Raises `Conflict` unless they are the outputs of its calls, one each.
    """
    turn = open_turn_of(chat)
    waiting = turn.waiting if turn else {}
    given = [one.call_id for one in outputs]
    if turn is None or len(set(given)) < len(given) or set(given) != set(waiting):
        raise Conflict(
            "These are not the outputs of the tools that the last reply called, one for each call."
        )
    return OpenTurn(turn.question, (*turn.rows, *_store(chat, outputs, waiting)))


def close(chat: Chat) -> None:
    """End the turn of `chat` that goes on, if one does: it is remembered as it is. The chat is locked, as above."""
    turn = open_turn_of(chat)
    if turn is None:
        return
    waiting = turn.waiting
    _store(chat, [ToolOutput(call_id, ABANDONED) for call_id in waiting], waiting)
    chat.open_seq = 0
    memory.turn_closed(chat.pk, turn.question.seq)


def _store(chat: Chat, outputs: Iterable[ToolOutput], names: dict[str, str]) -> list[Message]:
    now = timezone.now()
    rows = [
        _row(chat, Role.TOOL, one.content, {"call_id": one.call_id, "name": names[one.call_id]}, now)
        for one in outputs
    ]
    for row in rows:
        chat.last_seq = row.seq = chat.last_seq + 1
    return Message.objects.bulk_create(rows)


def call_rows(reply: Message, calls: Sequence[ToolCall], owner_id: int) -> list[Message]:
    """The rows of the calls that `reply` makes, which follow it."""
    rows = [
        _row(
            Chat(pk=reply.chat_id, owner_id=owner_id),
            Role.TOOL_CALL,
            call.text,
            call.payload,
            reply.completed_at,
        )
        for call in calls
    ]
    for seq, row in enumerate(rows, start=reply.seq + 1):
        row.seq = seq
    return rows


def _row(chat: Chat, role: Role, content: str, payload: dict[str, Any], now: Any) -> Message:
    return Message(
        chat=chat,
        role=role,
        content=content,
        payload=payload,
        status=Status.COMPLETE,
        token_count=count_tokens(content),
        terms=stored_terms(content, chat.owner_id),
        created_at=now,
        completed_at=now,
    )


def calls_of(reply: Message) -> list[ToolCall]:
    """The calls that a stored reply makes, in order."""
    number = (reply.payload or {}).get("calls", 0)
    if not number:
        return []
    rows = Message.objects.filter(
        chat_id=reply.chat_id, role=Role.TOOL_CALL, seq__gt=reply.seq, seq__lte=reply.seq + number
    ).order_by("seq")
    return [ToolCall.of(payload) for payload in rows.values_list("payload", flat=True) if payload]
