"""Views that create and regenerate replies: begun in the database executor, answered on the event loop."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.api.http import PAGING, caller, example
from chatmemory.database import executors
from chatmemory.errors import (
    InvalidRequest,
    NotFound,
    Unavailable,
    UpstreamFailed,
    UpstreamTimedOut,
)
from chatmemory.runtime import fault_points
from conversations import lookup
from conversations.accounts import quotas, stateless_calls
from conversations.api import stateless_stream, streams
from conversations.api.chats import messages_page
from conversations.api.limited_view import LimitedView
from conversations.api.serializers import (
    ChatMessageIn,
    FirstMessageIn,
    MessageIn,
    MessagesPageOut,
    TurnOut,
    VariantIn,
)
from conversations.api.stateless_serializers import AskIn, AskOut
from conversations.api.stream_response import EVENTS, event_stream
from conversations.api.turn_start import Begun, Opened, WaitingForSearch, try_begin, wait_and_begin
from conversations.replies import begin as services
from conversations.replies import generation, reader_limits, stateless
from conversations.replies.begin import BegunTurn
from conversations.replies.idempotency import ExistingReply
from conversations.replies.message_json import message_json
from memory.recall.embeddings import has_vectors, last_question
from memory.recall.ranking import Near

KEY = OpenApiParameter(
    "Idempotency-Key",
    # The printable characters among those that a header can hold.
    {"type": "string", "maxLength": 128, "pattern": "^[ -~\u00a1-\u00ac\u00ae-\u00ff]*$"},
    OpenApiParameter.HEADER,
    description="Up to 128 characters; repeats within 24 hours return the same turn.",
)
WHICH = "Events; with `stream: false` the message, once it is final."
TURN = {
    (200, "text/event-stream"): OpenApiResponse(EVENTS, WHICH),
    (200, "application/json"): OpenApiResponse(TurnOut, WHICH),
}
ANSWER = {
    (200, "text/event-stream"): OpenApiResponse({"$ref": "#/components/schemas/AnswerEvent"}, WHICH),
    (200, "application/json"): OpenApiResponse(AskOut, WHICH),
}


def idempotency_key(request: Request) -> str:
    """Return the client's key, or "". Raises `InvalidRequest` for a key that is too long or not printable."""
    key = request.headers.get("Idempotency-Key", "")
    if len(key) > 128 or not key.isprintable():
        raise InvalidRequest(
            "The Idempotency-Key is not valid.",
            details={"Idempotency-Key": ["At most 128 printable characters."]},
        )
    return key


class ReplyView(LimitedView):
    """Answers with the reply of a turn that was begun, or of one that already exists."""

    wants_stream = True

    async def answer(self, opened: Any) -> HttpResponseBase:
        turn: BegunTurn | ExistingReply = await wait_and_begin(opened)
        if isinstance(turn, ExistingReply):
            return await self._attached(turn)
        pending = turn.pending
        fault_points.point("begin.committed")
        generation.start(turn)
        turn = ExistingReply(pending.chat_id, pending.user_message.pk, pending.message_id)
        if self.wants_stream:
            return event_stream(streams.events(turn.chat_id, turn.message_id))
        return await self._whole(turn)

    async def _attached(self, turn: ExistingReply) -> HttpResponseBase:
        """Answer with the reply of an existing turn, as one more reader of it."""
        user_id = caller(self.request).pk
        slot = reader_limits.take(user_id, await executors.read(quotas.readers_allowed, user_id))
        if self.wants_stream:
            return event_stream(streams.events(turn.chat_id, turn.message_id), slot)
        try:
            return await self._whole(turn)
        finally:
            slot.release()

    def begin(self, request: Request, body: MessageIn, chat_id: UUID | None) -> Opened:
        """Begin the turn that the validated `body` requests, in a new chat if `chat_id` is None."""
        self.wants_stream = body.validated_data["stream"]
        turn, key = body.turn(services.default_variant()), idempotency_key(request)
        user = caller(request)

        def begin(near: tuple[Near, ...] = ()) -> Begun:
            asked = replace(turn, near=near)
            return try_begin(partial(services.begin_turn, user, asked, chat_id=chat_id, key=key))

        if chat_id is None or not has_vectors(user, chat_id):
            return begin()
        return WaitingForSearch(chat_id, turn.message, begin)

    async def _whole(self, turn: ExistingReply) -> HttpResponseBase:
        message = await streams.final_message(turn.chat_id, turn.message_id)
        if message is None and not generation.is_draining():
            raise NotFound("The chat was deleted while the reply was being written.")
        if message is None:
            raise Unavailable(
                "This server is restarting; the reply continues. Fetch the message in a moment.",
                details={"chat_id": [str(turn.chat_id)], "message_id": [str(turn.message_id)]},
                retry_after=1,
            )
        body = {
            "chat_id": str(turn.chat_id),
            "user_message_id": str(turn.user_message_id),
            "message": message_json(message),
        }
        if message.status == "failed":
            raise _failure(message.error, body, message.retry_after)
        return Response(body)


def _failure(error: dict[str, str] | None, body: dict[str, Any], retry_after: int | None) -> UpstreamFailed:
    error = error or {}
    kind = UpstreamTimedOut if error.get("code") == "upstream_timeout" else UpstreamFailed
    return kind(error.get("message") or "The model gave no answer.", details=body, retry_after=retry_after)


class FirstMessageView(ReplyView):
    @extend_schema(
        request=FirstMessageIn,
        responses=TURN,
        parameters=[KEY],
        operation_id="message_first",
        examples=example(
            {"message": "My order AB-1234 has not arrived.", "model_variant": "arco", "stream": False}
        ),
        summary="Start a chat with a message",
        description="Makes the chat, stores the message and answers with the reply, in one call.",
        tags=["messages"],
    )
    def post(self, request: Request) -> Opened:
        body = FirstMessageIn(data=request.data)
        body.is_valid(raise_exception=True)
        return self.begin(request, body, None)


class SendMessageView(ReplyView):
    @extend_schema(
        request=ChatMessageIn,
        responses=TURN,
        parameters=[KEY],
        operation_id="message",
        examples=example(
            {"chat_id": "019ab1c2-7d40-7000-8000-00000000c4a7", "message": "Where is my order AB-1234?"}
        ),
        summary="Send a message",
        description="Stores the message in its chat, builds the prompt and answers with the reply.",
        tags=["messages"],
    )
    def post(self, request: Request) -> Opened:
        body = ChatMessageIn(data=request.data)
        body.is_valid(raise_exception=True)
        return self.begin(request, body, body.validated_data["chat_id"])


class ChatMessagesView(ReplyView):
    """The messages of a chat: list them, or send one."""

    @extend_schema(
        request=MessageIn,
        responses=TURN,
        parameters=[KEY],
        operation_id="messages_create",
        examples=example({"message": "Where is my order AB-1234?"}),
        summary="Send a message to this chat",
        description="Stores the message, builds the prompt and answers with the reply.",
        tags=["messages"],
    )
    def post(self, request: Request, chat_id: UUID) -> Opened:
        body = MessageIn(data=request.data)
        body.is_valid(raise_exception=True)
        return self.begin(request, body, chat_id)

    @extend_schema(
        parameters=[
            OpenApiParameter(
                "order",
                str,
                enum=["asc", "desc"],
                description="`asc` for the oldest first, `desc` for the newest first.",
            ),
            *PAGING,
        ],
        responses=MessagesPageOut,
        operation_id="messages_list",
        summary="List messages",
        description="All messages of the chat, whether they are summarized or not.",
        tags=["messages"],
    )
    def get(self, request: Request, chat_id: UUID) -> Response:
        return messages_page(request, lookup.get_chat(caller(request), chat_id), self)


class RegenerateView(ReplyView):
    @extend_schema(
        request=VariantIn,
        responses=TURN,
        parameters=[KEY],
        operation_id="messages_regenerate",
        examples=example({"stream": False}),
        summary="Regenerate the last reply",
        description="A new answer to the last question; the older one is `superseded`. Also answers a "
        "question that has no reply.",
        tags=["messages"],
    )
    def post(self, request: Request, chat_id: UUID, message_id: UUID) -> Opened:
        body = VariantIn(data=request.data)
        body.is_valid(raise_exception=True)
        self.wants_stream = body.validated_data["stream"]
        user, key = caller(request), idempotency_key(request)
        again = partial(services.begin_regeneration, user, chat_id, message_id, body.variant(), key=key)

        def begin(near: tuple[Near, ...] = ()) -> Begun:
            return try_begin(partial(again, near=near))

        if not has_vectors(user, chat_id):
            return begin()
        return WaitingForSearch(chat_id, last_question(chat_id), begin)


class AskView(LimitedView):
    """For clients that manage their own history."""

    is_stateless = True
    wants_stream = True

    @extend_schema(
        request=AskIn,
        responses=ANSWER,
        operation_id="ask",
        examples=example({"messages": [{"role": "user", "content": "Say hello."}], "stream": False}),
        summary="Answer a client-side history (stateless)",
        description="The messages are sent as they are; no memory is added. Disconnecting ends the answer.",
        tags=["stateless"],
    )
    def post(self, request: Request) -> stateless.StatelessRequest:
        body = AskIn(data=request.data)
        body.is_valid(raise_exception=True)
        generation.refuse_when_draining()
        self.wants_stream = body.validated_data["stream"]
        prompt = body.prompt()
        tokens = stateless_calls.count(prompt.messages, prompt.instructions)
        return stateless.StatelessRequest(prompt, body.variant() or services.default_variant(), tokens)

    async def answer(self, opened: Any) -> HttpResponseBase:
        asked: stateless.StatelessRequest = opened
        tokens = quotas.tokens_for(asked.tokens, asked.variant)
        asked = replace(asked, call=await stateless_calls.begin(caller(self.request).pk, tokens))
        if self.wants_stream:
            return event_stream(stateless_stream.events(asked))
        message, retry_after = await stateless_stream.final_message(asked)
        if message["status"] == "failed":
            raise _failure(message["error"], {"message": message}, retry_after)
        return Response({"message": message})
