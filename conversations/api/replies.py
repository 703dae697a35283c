"""Views of replies: create, regenerate, resume and cancel them."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Never
from uuid import UUID

from django.conf import settings
from django.db.models import Q
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.api.async_view import SMALL_BYTES, AsyncView, P
from chatmemory.api.http import PAGING, caller, example, validated
from chatmemory.database import executors
from chatmemory.database.owned import ChatKey
from chatmemory.errors import (
    Conflict,
    InvalidRequest,
    NotFound,
    Unavailable,
    UpstreamFailed,
    UpstreamTimedOut,
)
from chatmemory.runtime import fault_points
from conversations.accounts import quotas
from conversations.api import serializers
from conversations.api.chats import messages_operation, messages_page
from conversations.models import ActiveReply, Message, get_chat, get_message
from conversations.replies import events, finish, generation, stream
from conversations.replies.begin import begin_regeneration, begin_turn, begin_when_ready, default_variant
from conversations.replies.generation import GrowingReply, UnstoredReply
from conversations.replies.reply import BegunTurn, Ending, ExistingReply, TurnRequest
from conversations.replies.serializers import AnswerEvent, OneMessageOut, ReplyEvent, TurnOut, message_json
from conversations.replies.stream import streamed
from memory.context.plan import Source

logger = logging.getLogger(__name__)

KEY = OpenApiParameter(
    "Idempotency-Key",
    # The printable characters among those that a header can hold.
    {"type": "string", "maxLength": 128, "pattern": "^[ -~\u00a1-\u00ac\u00ae-\u00ff]*$"},
    OpenApiParameter.HEADER,
    description="Up to 128 characters; repeats within 24 hours return the same turn.",
)
WHICH = "Events; with `stream: false` the message, once it is final."
TURN = {
    (200, "text/event-stream"): OpenApiResponse(ReplyEvent, WHICH),
    (200, "application/json"): OpenApiResponse(TurnOut, WHICH),
}
reply_operation = partial(messages_operation, responses=TURN, parameters=[KEY])
ANSWER = {
    (200, "text/event-stream"): OpenApiResponse(AnswerEvent, WHICH),
    (200, "application/json"): OpenApiResponse(serializers.AskOut, WHICH),
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


@dataclass(frozen=True, slots=True)
class TurnToBegin:
    """A turn that is to begin, and how its reply is sent."""

    begin: Callable[..., BegunTurn | ExistingReply]
    search: tuple[ChatKey, str | None] | None
    """The chat, and the question that it is searched for by meaning; None for its last question."""
    streams: bool
    memory_events: bool


class LimitedView(AsyncView[P]):
    """A view that calls a model. A refused request counts against the minute, too, because reading it costs."""

    is_authenticated = False  # until then, a refusal counts against no user
    throttle_classes = ()

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        """Also refuse a large body before it is parsed, if the user has no request left."""
        super().initial(request, *args, **kwargs)
        self.is_authenticated = True
        if self.length > SMALL_BYTES:
            quotas.require_request_left(caller(request).pk)

    async def count_refusal(self) -> None:
        if self.is_authenticated and (user_id := self.request.user.pk):
            await executors.write(quotas.count_request, user_id)


class ReplyView(LimitedView[TurnToBegin]):
    """Answers with the reply of a turn that begins, or of one that already exists."""

    stores_in_respond = True

    def message(self, request: Request, fields: dict[str, Any], chat_id: UUID | None) -> TurnToBegin:
        """Return the turn that the `fields` of the body request, in a new chat if `chat_id` is None."""
        as_they_are = ("message", "instructions", "metadata", "policy", "temporary", "project", "across")
        turn = TurnRequest(
            variant=fields.get("model_variant") or default_variant(),
            sources=tuple(Source(**source) for source in fields["sources"]),
            **{name: fields[name] for name in as_they_are if name in fields},
        )
        user = caller(request)
        begin = partial(begin_turn, user, turn, chat_id=chat_id, key=idempotency_key(request))
        search = None if chat_id is None else (ChatKey(chat_id, user.pk), turn.message)
        return TurnToBegin(begin, search, fields["stream"], fields["memory_events"])

    async def respond(self, prepared: TurnToBegin) -> HttpResponseBase:
        turn = await begin_when_ready(prepared.begin, prepared.search)
        streams, memory_events = prepared.streams, prepared.memory_events
        del prepared
        await self.memory.aclose()
        head, slot = await stream.open_reader(caller(self.request).pk, turn)
        if streams:
            return streamed(stream.reply_events(head, with_memory=memory_events), slot)
        ids = {"chat_id": str(head.chat.id), "user_message_id": str(head.user_message_id)}
        with closing(slot) if slot else nullcontext():
            reply = stream.reply_of(head.chat, head.message_id)
            return await _whole(reply, ids)


async def _whole(reply: GrowingReply, ids: Mapping[str, str]) -> Response:
    """Wait for the end of a reply. Raises `UpstreamFailed` if the model did not answer."""
    with reply:
        message = await stream.final_of(reply)
    body = {**ids, "message": message_json(message)}
    if message.status != "failed":
        return Response(body)
    error = stream.failure_of(reply, message)
    kind = UpstreamTimedOut if error.code == "upstream_timeout" else UpstreamFailed
    raise kind(error.sentence, details=body, retry_after=error.retry_after)


class FirstMessageView(ReplyView):
    @reply_operation(
        request=serializers.FirstMessageIn,
        operation_id="message_first",
        examples=example({"message": "My order AB-1234 has not arrived.", "model_variant": "arco", "stream": False}),
    )
    def post(self, request: Request) -> TurnToBegin:
        """Start a chat with a message. Makes the chat, stores the message and answers with the reply, in one call."""
        return self.message(request, validated(serializers.FirstMessageIn, request.data), None)


class SendMessageView(ReplyView):
    @reply_operation(
        request=serializers.ChatMessageIn,
        operation_id="message",
        examples=example({"chat_id": "019ab1c2-7d40-7000-8000-00000000c4a7", "message": "Where is my order AB-1234?"}),
    )
    def post(self, request: Request) -> TurnToBegin:
        """Send a message. Stores the message in its chat, builds the prompt and answers with the reply."""
        fields = validated(serializers.ChatMessageIn, request.data)
        return self.message(request, fields, fields["chat_id"])


class ChatMessagesView(ReplyView):
    """The messages of a chat: list them, or send one."""

    @reply_operation(
        request=serializers.MessageIn,
        operation_id="messages_create",
        examples=example({"message": "Where is my order AB-1234?"}),
    )
    def post(self, request: Request, chat_id: UUID) -> TurnToBegin:
        """Send a message to this chat. Stores the message, builds the prompt and answers with the reply."""
        return self.message(request, validated(serializers.MessageIn, request.data), chat_id)

    @messages_operation(
        parameters=[
            OpenApiParameter(
                "order",
                str,
                enum=["asc", "desc"],
                description="`asc` for the oldest first, `desc` for the newest first.",
            ),
            *PAGING,
        ],
        responses=serializers.MessagesPageOut,
        operation_id="messages_list",
    )
    def get(self, request: Request, chat_id: UUID) -> Response:
        """List messages. All messages of the chat, whether they are summarized or not."""
        return messages_page(request, get_chat(caller(request), chat_id))


class RegenerateView(ReplyView):
    @reply_operation(
        request=serializers.RegenerateIn, operation_id="messages_regenerate", examples=example({"stream": False})
    )
    def post(self, request: Request, chat_id: UUID, message_id: UUID) -> TurnToBegin:
        """Regenerate the last reply. A new answer to the last question; the older one is `superseded`. Also answers a
        question that has no reply.
        """
        fields = validated(serializers.RegenerateIn, request.data)
        user, variant, key = caller(request), fields.get("model_variant"), idempotency_key(request)
        begin = partial(begin_regeneration, user, chat_id, message_id, variant, key=key)
        search = ChatKey(chat_id, user.pk), None
        return TurnToBegin(begin, search, fields["stream"], fields["memory_events"])


class StreamView(AsyncView[Never]):
    @messages_operation(
        parameters=[
            serializers.StreamQuery,
            OpenApiParameter(
                "Last-Event-ID",
                {"type": "string", "pattern": "^[0-9]*$", "maxLength": serializers.POSITION_DIGITS},
                OpenApiParameter.HEADER,
                description="The same, as browsers send it; `after` takes precedence.",
            ),
        ],
        responses={(200, "text/event-stream"): OpenApiResponse(ReplyEvent, "The rest of the events.")},
        operation_id="messages_stream",
    )
    def get(self, request: Request, chat_id: UUID, message_id: UUID) -> StreamingHttpResponse:
        """Resume a reply's event stream. Events of a reply from a position on, whichever process writes it. Of a reply
        that has ended, the final event.
        """
        user = caller(request)
        head = stream.find(get_chat(user, chat_id).key, message_id)
        query, last = validated(serializers.StreamQuery, request.query_params.dict()), _last_event_id(request)
        rest = stream.reply_events(head, query.get("after", last), with_memory=query["memory_events"])
        return streamed(rest, stream.take_slot(user.pk))


def _last_event_id(request: Request) -> int:
    """Return the position that a browser sends, or 0. Raises `InvalidRequest` if it is none."""
    last = request.headers.get("Last-Event-ID") or "0"
    if not re.fullmatch(f"[0-9]{{1,{serializers.POSITION_DIGITS}}}", last):
        why = {"Last-Event-ID": ["A whole number of code points."]}
        raise InvalidRequest("The position is not valid.", details=why)
    return int(last)


class CancelView(AsyncView[tuple[ChatKey, UUID]]):
    throttle_classes = ()  # it ends work

    @messages_operation(request=None, responses=OneMessageOut, operation_id="messages_cancel")
    def post(self, request: Request, chat_id: UUID, message_id: UUID) -> tuple[ChatKey, UUID]:
        """Cancel a reply. The partial reply is kept. If the reply has already finished, the answer is 409."""
        chat = get_chat(caller(request), chat_id)
        get_message(chat, message_id)  # only of this chat
        active = ActiveReply.objects.filter(chat=chat, message_id=message_id)
        if not active.update(cancel_requested=True):  # its process stops
            raise Conflict("This reply is already finished.")
        fault_points.point("cancel.requested")
        return chat.key, message_id

    async def respond(self, prepared: tuple[ChatKey, UUID]) -> HttpResponseBase:
        chat, message_id = prepared
        if (own := generation.running(message_id)) is not None:
            own.stop(Ending.cancelled())
        message = await self._ended(chat, message_id)
        if message.status != "cancelled":
            raise Conflict("This reply finished before it could be cancelled.")
        return Response({"message": message_json(message)})

    async def _ended(self, chat: ChatKey, message_id: UUID) -> Message:
        """Wait for the final message: its owner writes it within a few checkpoints, otherwise this process does."""
        try:
            async with asyncio.timeout(4 * settings.REPLY_CHECKPOINT_SECONDS):
                with stream.reply_of(chat, message_id) as reply:
                    return await stream.final_of(reply)
        except (TimeoutError, Unavailable):
            logger.warning("cancelled for its owner", extra={"reply": str(message_id)})
        await executors.write(finish.finish_in, chat, Q(message_id=message_id))
        message = await executors.read(Message.objects.filter(**chat.columns, pk=message_id).first)
        if message is None:
            raise NotFound("This chat has no such message.")
        return message


class AskView(LimitedView[tuple[UnstoredReply, bool]]):
    """For clients that manage their own history."""

    is_stateless = True

    @messages_operation(
        request=serializers.AskIn,
        responses=ANSWER,
        operation_id="ask",
        tags=["stateless"],
        examples=example({"messages": [{"role": "user", "content": "Say hello."}], "stream": False}),
    )
    def post(self, request: Request) -> tuple[UnstoredReply, bool]:
        """Answer a client-side history (stateless). The messages are sent as they are; no memory is added.
        Disconnecting ends the answer.
        """
        fields = validated(serializers.AskIn, request.data)
        generation.refuse_when_draining()
        variant = fields.get("model_variant") or default_variant()
        return UnstoredReply(serializers.prompt_of(fields["messages"]), variant), fields["stream"]

    async def respond(self, prepared: tuple[UnstoredReply, bool]) -> HttpResponseBase:
        reply, streams = prepared
        await reply.reserve(caller(self.request))
        return streamed(_unstored_events(reply)) if streams else await _whole(reply, {})


async def _unstored_events(reply: UnstoredReply) -> AsyncIterator[bytes]:
    yield events.event("message.created", {"model_variant": reply.variant.name})
    with reply:  # the upstream is called once the first event has been read
        async for text in stream.texts_of(reply):
            yield events.event("content.delta", {"delta": text}) if text else events.KEEP_ALIVE
        message = await stream.final_of(reply)
    yield events.final(message)
