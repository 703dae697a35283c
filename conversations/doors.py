"""The doors that make, follow, cancel and repeat replies: decided in the database executor, answered on the loop."""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory import db
from chatmemory.door import AsyncDoor
from chatmemory.errors import (
    Conflict,
    InvalidRequest,
    NotFound,
    Unavailable,
    UpstreamFailed,
    UpstreamTimedOut,
)
from chatmemory.http import caller
from conversations import finishing, following, generation, services
from conversations.models import ActiveReply, Message, Role
from conversations.serializers import (
    ChatMessageIn,
    FirstMessageIn,
    MessageIn,
    MessagesPageOut,
    OneMessageOut,
    TurnOut,
    VariantIn,
    message_json,
)
from conversations.services import Begun, Standing
from conversations.views import messages_page

logger = logging.getLogger(__name__)

KEY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="At most 128 characters; the same turn for 24 hours.",
)
EVENTS = OpenApiResponse(
    OpenApiTypes.STR, description="Events; with `stream: false` the message, once it is final."
)
TURN = {(200, "text/event-stream"): EVENTS, (200, "application/json"): TurnOut}

HEADERS = {
    "Cache-Control": "no-store, no-transform",
    "X-Accel-Buffering": "no",
    # Compressing middleware would cut a stream into members that clients do not join.
    "Content-Encoding": "identity",
}


def idempotency_key(request: Request) -> str:
    """The client's key, or "". Raises InvalidRequest for one that is too long or not text."""
    key = request.headers.get("Idempotency-Key", "")
    if len(key) > 128 or not key.isprintable():
        raise InvalidRequest(
            "The Idempotency-Key is not valid.",
            details={"Idempotency-Key": ["At most 128 printable characters."]},
        )
    return key


class ReplyDoor(AsyncDoor):
    """Answers with the reply of a turn that has begun, or of one that stands."""

    wants_stream = True

    async def answer(self, opened: Any) -> HttpResponseBase:
        turn: Begun | Standing = opened
        if isinstance(turn, Begun):
            pending = turn.pending
            generation.start(turn)
            turn = Standing(pending.chat_id, pending.user_message.pk, pending.message_id)
        if self.wants_stream:
            return event_stream(turn.chat_id, turn.message_id)
        return await self._whole(turn)

    def begin(self, request: Request, body: MessageIn, chat_id: UUID | None) -> Begun | Standing:
        """Begin the turn that `body` (validated) asks for; without `chat_id`, in a new chat."""
        generation.refuse_when_draining()
        self.wants_stream = body.validated_data["stream"]
        turn = body.turn(services.default_variant())
        return services.begin_turn(caller(request), turn, chat_id=chat_id, key=idempotency_key(request))

    async def _whole(self, turn: Standing) -> HttpResponseBase:
        message = await following.final(turn.chat_id, turn.message_id)
        if message is None and not generation.is_draining():
            raise NotFound("The chat was deleted while the reply was being written.")
        if message is None:
            raise Unavailable(
                "This server is restarting; the reply goes on. Ask for the message in a moment.",
                details={"chat_id": [str(turn.chat_id)], "message_id": [str(turn.message_id)]},
                retry_after=1,
            )
        body = {
            "chat_id": str(turn.chat_id),
            "user_message_id": str(turn.user_message_id),
            "message": message_json(message),
        }
        if message.status == "failed":
            raise _nothing(message, body)
        return Response(body)


def event_stream(chat_id: UUID, message_id: UUID, after: int = 0) -> StreamingHttpResponse:
    """The response that follows a reply."""
    stream = following.events(chat_id, message_id, after)
    return StreamingHttpResponse(stream, content_type="text/event-stream", headers=HEADERS)


def _nothing(message: Message, body: dict[str, Any]) -> UpstreamFailed:
    error = message.error or {}
    kind = UpstreamTimedOut if error.get("code") == "upstream_timeout" else UpstreamFailed
    return kind(error.get("message") or "The model gave no answer.", details=body)


class FirstMessageDoor(ReplyDoor):
    @extend_schema(
        request=FirstMessageIn,
        responses=TURN,
        parameters=[KEY],
        operation_id="message_first",
        summary="Make a chat by its first message",
        tags=["messages"],
    )
    def post(self, request: Request) -> Begun | Standing:
        body = FirstMessageIn(data=request.data)
        body.is_valid(raise_exception=True)
        return self.begin(request, body, None)


class MessageDoor(ReplyDoor):
    @extend_schema(
        request=ChatMessageIn,
        responses=TURN,
        parameters=[KEY],
        operation_id="message",
        summary="Send a message, get the reply",
        tags=["messages"],
    )
    def post(self, request: Request) -> Begun | Standing:
        body = ChatMessageIn(data=request.data)
        body.is_valid(raise_exception=True)
        return self.begin(request, body, body.validated_data["chat_id"])


class ChatMessagesDoor(ReplyDoor):
    """The messages of a chat, and the door to it by path."""

    @extend_schema(
        request=MessageIn,
        responses=TURN,
        parameters=[KEY],
        operation_id="messages_create",
        summary="The same, the chat from the path",
        tags=["messages"],
    )
    def post(self, request: Request, chat_id: UUID) -> Begun | Standing:
        body = MessageIn(data=request.data)
        body.is_valid(raise_exception=True)
        return self.begin(request, body, chat_id)

    @extend_schema(
        parameters=[
            OpenApiParameter("order", str, enum=["asc", "desc"]),
            OpenApiParameter("cursor", str),
            OpenApiParameter("limit", int),
        ],
        responses=MessagesPageOut,
        operation_id="messages_list",
        summary="All messages ever said",
        tags=["messages"],
    )
    def get(self, request: Request, chat_id: UUID) -> Response:
        return messages_page(request, services.get_chat(caller(request), chat_id), self)


class RegenerateDoor(ReplyDoor):
    @extend_schema(
        request=VariantIn,
        responses=TURN,
        parameters=[KEY],
        operation_id="messages_regenerate",
        summary="Answer the last question again",
        tags=["messages"],
    )
    def post(self, request: Request, chat_id: UUID, message_id: UUID) -> Begun | Standing:
        body = VariantIn(data=request.data)
        body.is_valid(raise_exception=True)
        generation.refuse_when_draining()
        self.wants_stream = body.validated_data["stream"]
        key = idempotency_key(request)
        return services.begin_regeneration(caller(request), chat_id, message_id, body.variant(), key=key)


class StreamDoor(AsyncDoor):
    @extend_schema(
        parameters=[
            OpenApiParameter("after", int, description="Code points of the reply that you have."),
            OpenApiParameter("Last-Event-ID", str, OpenApiParameter.HEADER),
        ],
        responses={(200, "text/event-stream"): EVENTS},
        operation_id="messages_stream",
        summary="The rest of a reply",
        tags=["messages"],
    )
    def get(self, request: Request, chat_id: UUID, message_id: UUID) -> tuple[UUID, UUID, int]:
        chat = services.get_chat(caller(request), chat_id)
        found = services.get_message(chat, message_id)
        if isinstance(found, Message) and found.role != Role.ASSISTANT:
            raise NotFound("This message is no reply.")
        return chat_id, message_id, _position(request)

    async def answer(self, opened: Any) -> HttpResponseBase:
        return event_stream(*opened)


def _position(request: Request) -> int:
    given = request.query_params.get("after") or request.headers.get("Last-Event-ID") or "0"
    if not (given.isascii() and given.isdigit() and len(given) < 12):
        raise InvalidRequest(
            "The position is not valid.", details={"after": ["A whole number of code points."]}
        )
    return int(given)


class CancelDoor(AsyncDoor):
    @extend_schema(
        request=None,
        responses=OneMessageOut,
        operation_id="messages_cancel",
        summary="Stop a reply, keep what was said",
        tags=["messages"],
    )
    def post(self, request: Request, chat_id: UUID, message_id: UUID) -> tuple[UUID, UUID]:
        chat = services.get_chat(caller(request), chat_id)
        found = services.get_message(chat, message_id)
        if not isinstance(found, ActiveReply) or not finishing.request_cancel(chat_id, message_id):
            raise Conflict("This message is final already.")
        return chat_id, message_id

    async def answer(self, opened: Any) -> HttpResponseBase:
        chat_id, message_id = opened
        if (own := generation.running(message_id)) is not None:
            own.cancel()
        message = await self._ended(chat_id, message_id)
        if message is None:
            raise NotFound("There is no such message in this chat.")
        if message.status != "cancelled":
            raise Conflict("This message became final before it could be cancelled.")
        return Response({"message": message_json(message)})

    async def _ended(self, chat_id: UUID, message_id: UUID) -> Message | None:
        """The message as it ended: by its owner within a few ticks, else by us."""
        patience = 4 * settings.REPLY_CHECKPOINT_SECONDS
        try:
            async with asyncio.timeout(patience):
                message = await following.final(chat_id, message_id)
            if message is not None or not generation.is_draining():
                return message
        except TimeoutError:
            logger.warning("cancelled for its owner", extra={"reply": str(message_id)})
        await db.write(finishing.finish_cancelled, chat_id, message_id)
        return (await db.read(following.find, chat_id, message_id)).final
