"""Views of one reply: resume its stream, or cancel it while it is being written."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.api.async_view import AsyncView
from chatmemory.api.http import caller
from chatmemory.database import executors
from chatmemory.errors import Conflict, InvalidRequest, NotFound
from chatmemory.runtime import fault_points
from conversations import lookup
from conversations.accounts import quotas
from conversations.api import streams
from conversations.api.serializers import OneMessageOut
from conversations.api.stream_response import EVENTS, event_stream
from conversations.models import ActiveReply, Message, Role
from conversations.replies import finish, generation, pollers, reader_limits
from conversations.replies.message_json import message_json

logger = logging.getLogger(__name__)

POSITION_DIGITS = 11


@dataclass(frozen=True, slots=True)
class Resumed:
    """A reader that resumes a reply's stream, and how many readers its user may have."""

    chat_id: UUID
    message_id: UUID
    position: int
    user_id: int
    readers_allowed: int


class StreamView(AsyncView):
    @extend_schema(
        parameters=[
            OpenApiParameter(
                "after",
                {"type": "integer", "minimum": 0, "maximum": 10**POSITION_DIGITS - 1},
                description="Number of code points of the reply received so far.",
            ),
            OpenApiParameter(
                "Last-Event-ID",
                {"type": "string", "pattern": "^[0-9]*$", "maxLength": POSITION_DIGITS},
                OpenApiParameter.HEADER,
                description="The same, as browsers send it; `after` takes precedence.",
            ),
        ],
        responses={(200, "text/event-stream"): OpenApiResponse(EVENTS, "The rest of the events.")},
        operation_id="messages_stream",
        summary="Resume a reply's event stream",
        description="Events of a reply from a position on, whichever process writes it. Of a reply that "
        "has ended, the final event.",
        tags=["messages"],
    )
    def get(self, request: Request, chat_id: UUID, message_id: UUID) -> Resumed:
        user = caller(request)
        chat = lookup.get_chat(user, chat_id)
        found = lookup.get_message(chat, message_id)
        if isinstance(found, Message) and found.role != Role.ASSISTANT:
            raise NotFound("This message is not a reply.")
        return Resumed(chat_id, message_id, _position(request), user.pk, quotas.readers_allowed(user.pk))

    async def answer(self, opened: Any) -> HttpResponseBase:
        resumed: Resumed = opened
        slot = reader_limits.take(resumed.user_id, resumed.readers_allowed)
        return event_stream(streams.events(resumed.chat_id, resumed.message_id, resumed.position), slot)


def _position(request: Request) -> int:
    """Return the client's position: `after`, else `Last-Event-ID`. Raises `InvalidRequest` if either is no position."""
    after, last = request.query_params.get("after"), request.headers.get("Last-Event-ID") or "0"
    for name, given in (("after", after), ("Last-Event-ID", last)):
        if given is not None and not _is_position(given):
            raise InvalidRequest(
                "The position is not valid.", details={name: ["A whole number of code points."]}
            )
    return int(last if after is None else after)


def _is_position(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= POSITION_DIGITS


class CancelView(AsyncView):
    @extend_schema(
        request=None,
        responses=OneMessageOut,
        operation_id="messages_cancel",
        summary="Cancel a reply",
        description="The partial reply is kept. If the reply has already finished, the answer is 409.",
        tags=["messages"],
    )
    def post(self, request: Request, chat_id: UUID, message_id: UUID) -> tuple[UUID, UUID]:
        chat = lookup.get_chat(caller(request), chat_id)
        found = lookup.get_message(chat, message_id)
        if not isinstance(found, ActiveReply) or not finish.request_cancel(chat_id, message_id):
            raise Conflict("This reply is already finished.")
        fault_points.point("cancel.requested")
        return chat_id, message_id

    async def answer(self, opened: Any) -> HttpResponseBase:
        chat_id, message_id = opened
        if (own := generation.running(message_id)) is not None:
            own.cancel()
        message = await self._ended(chat_id, message_id)
        if message is None:
            raise NotFound("This chat has no such message.")
        if message.status != "cancelled":
            raise Conflict("This reply finished before it could be cancelled.")
        return Response({"message": message_json(message)})

    async def _ended(self, chat_id: UUID, message_id: UUID) -> Message | None:
        """Wait for the final message: its owner writes it within a few checkpoints, otherwise this process does."""
        patience = 4 * settings.REPLY_CHECKPOINT_SECONDS
        try:
            async with asyncio.timeout(patience):
                message = await streams.final_message(chat_id, message_id)
            if message is not None or not generation.is_draining():
                return message
        except TimeoutError:
            logger.warning("cancelled for its owner", extra={"reply": str(message_id)})
        await executors.write(finish.finish_cancelled, chat_id, message_id)
        return (await executors.read(pollers.find, chat_id, message_id)).final
