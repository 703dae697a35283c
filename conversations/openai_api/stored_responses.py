"""Responses and their items, by the ids that this server gave them."""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User

from chatmemory.errors import NotFound
from chatmemory.llm.protocol import PromptMessage, ToolCall
from conversations.models import ChatCompletion, Message, Role, Status
from conversations.openai_api.answer import Ended
from conversations.openai_api.response import ITEM_ID, RESPONSE_ID, ResponseFormat
from conversations.replies import stream
from conversations.replies.open_turn import calls_of
from conversations.replies.reply import ReplyHead
from memory.context.build import sent_request


def stored_response(user: User, response_id: str, **columns: str) -> ChatCompletion:
    """Return the turn of the user's response of this id, if it has these `columns`. Raises `NotFound`."""
    mine = ChatCompletion.objects.filter(user=user, response__isnull=False, **columns).select_related("chat")
    is_id = RESPONSE_ID.fullmatch(response_id)
    turn = mine.filter(message_id=UUID(response_id.removeprefix("resp_"))).first() if is_id else None
    if turn is None:
        raise NotFound("Response not found.")
    return turn


def response_of(turn: ChatCompletion) -> tuple[ReplyHead, ResponseFormat, Ended | None]:
    """Return a response, and how it ended; None if it is in progress. Raises `NotFound` if its reply is gone."""
    head = stream.find(turn.chat.key, turn.message_id)
    sent = head.snapshot
    question = head.user_message_id and Message.objects.filter(chat=turn.chat, pk=head.user_message_id).first()
    request = sent_request(question, sent, sent.turn_instructions_hash) if sent and question else None
    instructions, tools = (request.instructions, request.tools) if request else ("", ())
    response = ResponseFormat(turn.model, turn.response or {}, instructions, tools, message_id=turn.message_id)
    reply = Message.objects.filter(chat=turn.chat, pk=turn.message_id).first()
    return head, response, Ended.of(reply, calls_of(reply), head.prompt_tokens) if reply else None


def input_items(turn: ChatCompletion) -> list[dict[str, Any]]:
    """Return what the request of a response brought to its chat, in order: outputs of tools, a message, or both."""
    head = stream.find(turn.chat.key, turn.message_id)
    before = Message.objects.filter(chat=turn.chat, seq__lt=turn.seq)
    replies = before.filter(role=Role.ASSISTANT, superseded_by=None).exclude(status=Status.FAILED)
    last = replies.order_by("-seq").values_list("seq", flat=True).first() or 0
    rows = before.filter(seq__gt=last, role__in=(Role.USER, Role.TOOL)).order_by("seq")
    return [_input_item(row) for row in rows if row.role == Role.TOOL or row.pk == head.user_message_id]


def _input_item(row: Message) -> dict[str, Any]:
    if row.role == Role.TOOL:
        call_id = (row.payload or {})["call_id"]
        of_output = {"type": "function_call_output", "call_id": call_id, "output": row.content}
        return {"id": f"fco_{row.pk.hex}", **of_output, "status": "completed"}
    content = [{"type": "input_text", "text": row.content}]
    return {"id": f"msg_{row.pk.hex}", "type": "message", "role": "user", "content": content, "status": "completed"}


def items_by_id(user: User, end_user: str, ids: Collection[str]) -> dict[str, PromptMessage]:
    """Return the items with these ids that were sent to this user, or come from them, under this end user's name."""
    named = {one: (UUID(match[1]), match[2]) for one in ids if (match := ITEM_ID.fullmatch(one))}
    chats = ChatCompletion.objects.filter(user=user, end_user=end_user).values("chat")
    mine = Message.objects.filter(owner_id=user.pk, chat__in=chats).exclude(status=Status.DELETED)
    spoken = mine.exclude(role=Role.TOOL_CALL).filter(pk__in={pk for pk, _ in named.values()})
    rows: dict[UUID, Any] = {row.pk: row for row in spoken}
    places = {
        one: (rows[pk].chat_id, rows[pk].seq + 1 + int(number))
        for one, (pk, number) in named.items()
        if number is not None and pk in rows
    }
    called = mine.filter(
        role=Role.TOOL_CALL,
        chat__in={chat for chat, _ in places.values()},
        seq__in={seq for _, seq in places.values()},
    )
    calls = {(row.chat_id, row.seq): ToolCall.of(row.payload or {}) for row in called}
    found: dict[str, PromptMessage] = {}
    for one, (pk, number) in named.items():
        if number is None and pk in rows:
            row = rows[pk]
            found[one] = PromptMessage(row.role, row.content, call_id=(row.payload or {}).get("call_id", ""))
        elif one in places and places[one] in calls:
            found[one] = PromptMessage("assistant", "", (calls[places[one]],))
    return found
