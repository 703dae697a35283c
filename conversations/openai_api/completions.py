"""`POST /v1/chat/completions`: a reply with memory, for any client of OpenAI's API."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.api.http import caller
from chatmemory.database import executors
from chatmemory.errors import ChatBusy, NotFound, Unavailable
from chatmemory.llm import registry
from chatmemory.llm.openai.requests import CHAT_ONLY
from chatmemory.llm.protocol import ReplyError, ToolCall, Variant
from conversations.accounts import quotas
from conversations.api import streams
from conversations.api.replies import idempotency_key
from conversations.api.stream_response import event_stream
from conversations.api.turn_start import try_begin, wait_and_begin
from conversations.models import Chat, Message
from conversations.openai_api import find_conversation, retries, schema, turns, unstored
from conversations.openai_api.chat_answer import (
    Answer,
    completion_id,
    finish_reason,
    unix,
    usage_json,
)
from conversations.openai_api.chat_request import ChatRequest, read_request
from conversations.openai_api.errors import ModelFailed, RequestError, unsupported
from conversations.openai_api.find_conversation import TurnPlace
from conversations.openai_api.first_piece import begun
from conversations.openai_api.history import RequestLimits, refuse_outputs_alone
from conversations.openai_api.history_keys import history_keys
from conversations.openai_api.model_names import variant_named
from conversations.openai_api.turns import CompletionRequest, CompletionTurn
from conversations.openai_api.unstored import Unstored
from conversations.openai_api.view import OpenAIView
from conversations.replies import generation, reader_limits, sse
from conversations.replies.begin import TurnRequest
from conversations.replies.generation import Generation
from conversations.replies.idempotency import ExistingReply
from conversations.replies.open_turn import ToolOutput, calls_of
from conversations.replies.reader_limits import ReaderSlot
from memory.services import has_vectors, near_in_meaning, outline_of

NAME_CHARS = 200
MESSAGES_OF_INSTRUCTIONS = 10
"""System and developer messages may have as much text together as so many longest messages: more than a model reads."""
TRIES = 3
"""Number of attempts to begin a turn in a chat that changes while the turn is prepared."""


@dataclass(frozen=True, slots=True)
class Opening:
    """A completion, and the place where its turn belongs."""

    asked: CompletionRequest
    place: TurnPlace


class CompletionsView(OpenAIView):
    """Finds the chat that the messages belong to, and sends the model the prompt that memory makes for it."""

    reads_first = True
    answer_frees_memory = True

    @schema.completions_create
    def post(self, request: Request) -> Opening | Unstored | CompletionTurn:
        user = caller(request)
        self.limits = quotas.remaining(user.pk)
        generation.refuse_when_draining()
        data, body_hash = request.data, hashlib.sha256(request._request.body)
        self.drop_body()
        asked = read_request(
            data,
            RequestLimits(
                message_chars=settings.MESSAGE_MAX_CHARS,
                instructions_chars=MESSAGES_OF_INSTRUCTIONS * settings.MESSAGE_MAX_CHARS,
                attachment_bytes=settings.ATTACHMENT_MAX_BYTES,
            ),
        )
        del data
        variant = _variant(asked)
        self.asked = replace(asked, history=(), new=())
        end_user = _end_user(asked)
        name = _name_of(request, asked, end_user)
        body_hash.update(name.encode())  # the same words in another conversation are another request
        if not name or not asked.store:
            refuse_outputs_alone((*asked.history, *asked.new))
        if not unstored.is_to_be_stored(request, asked):
            return Unstored.of(asked, variant)
        made = CompletionRequest(
            user,
            asked,
            history_keys(settings.SECRET_KEY.encode(), user.pk, asked.history, asked.new, end_user),
            TurnRequest(
                message=asked.question,
                variant=variant,
                instructions=asked.instructions,
                parameters=asked.parameters,
                tools=asked.tools,
                outputs=tuple(ToolOutput(one.call_id, one.content) for one in asked.outputs),
                attachments=asked.attachments,
            ),
            body_hash.digest(),
            name=name,
            end_user=end_user,
            is_retry=request.headers.get("x-stainless-retry-count", "0") not in ("0", ""),
            idempotency_key=idempotency_key(request),
        )
        existing = retries.find_existing(made)
        if existing is not None:
            return existing
        place = find_conversation.find(user, asked, made.keys, name, end_user)
        return Unstored.of(asked, variant) if place.decision == "not stored" else Opening(made, place)

    async def answer(self, opened: Any) -> HttpResponseBase:
        if isinstance(opened, Unstored):
            await self.memory.aclose()
            response = await unstored.answer(caller(self.request).pk, opened)
            return self._rendered(response) if isinstance(response, Response) else response
        if isinstance(opened, Opening):
            beginning = _begun(opened)
            del opened
            made = await beginning
        else:
            made = opened
        await self.memory.aclose()
        if isinstance(made.turn, ExistingReply):
            return await self._attached(made, made.turn)
        generation.start(made.turn)
        pending = made.turn.pending
        turn = ExistingReply(pending.chat_id, pending.user_message.pk, pending.message_id)
        headers = _headers(made, turn, pending.context)
        return await self._respond(turn, unix(pending.started_at), pending.context, headers)

    async def _attached(self, made: CompletionTurn, turn: ExistingReply) -> HttpResponseBase:
        """Answer with the reply of an existing turn, as one more reader of it."""
        user_id = caller(self.request).pk
        slot = reader_limits.take(user_id, await executors.read(quotas.readers_allowed, user_id))
        context = await executors.read(outline_of, turn.message_id)
        headers = _headers(made, turn, context)
        return await self._respond(turn, unix(timezone.now()), context, headers, slot)

    async def _respond(
        self,
        turn: ExistingReply,
        created: int,
        context: Mapping[str, Any],
        headers: Mapping[str, str],
        slot: ReaderSlot | None = None,
    ) -> HttpResponseBase:
        answer = Answer(completion_id(turn.message_id), created, self.asked.model)
        try:
            if self.asked.stream:
                chunks = await begun(_chunks(answer, turn, context, self.asked))
                response: HttpResponseBase = event_stream(chunks, slot)
            else:
                response = await self._whole(answer, turn, context)  # the slot is held until this returns
        except ModelFailed as failed:
            response = self._rendered(self._failed(failed))
        for name, value in headers.items():
            response[name] = value
        return response

    async def _whole(
        self, answer: Answer, turn: ExistingReply, context: Mapping[str, Any]
    ) -> HttpResponseBase:
        message, failure = await _final(turn, generation.running(turn.message_id))
        reason = finish_reason(message.status, message.error)
        if reason is None:
            raise ModelFailed(failure, answer.id)
        usage = usage_json(message.usage, _tokens(context), message.token_count)
        calls = await _calls(message)
        return self._rendered(Response(answer.completion(message.content, reason, usage, calls)))


async def _begun(opening: Opening) -> CompletionTurn:
    """Begin the turn in its place. If the chat has changed since it was found, look for the place again."""
    asked, place = opening.asked, opening.place
    for _ in range(TRIES):
        prepared = None
        if place.decision in ("imported", "branched"):
            prepared = await executors.slow(turns.prepare, asked, place)
        near: tuple[Any, ...] = ()
        chat = place.chat if asked.request.question else None
        if chat is not None and registry.embeds() and await _has_meanings(asked, chat):
            near = await near_in_meaning(chat.pk, asked.request.question)

        def begin(
            *, may_wait: bool = False, where: Any = place, rows: Any = prepared, alike: Any = near
        ) -> CompletionTurn | None:
            return turns.begin(asked, where, rows, may_wait=may_wait, near=alike)

        made: CompletionTurn | None = await wait_and_begin(await executors.write(try_begin, begin))
        if made is not None:
            return made
        place = await executors.read(
            find_conversation.find, asked.user, asked.request, asked.keys, asked.name, asked.end_user
        )
    raise ChatBusy("The conversation keeps changing. Try again in a moment.", retry_after=1)


async def _has_meanings(asked: CompletionRequest, chat: Chat) -> bool:
    return await executors.read(has_vectors, asked.user, chat.pk)


def _variant(asked: ChatRequest) -> Variant:
    """Return the named variant with the request's own limit. Raises for what the upstream does not support."""
    variant = variant_named(asked.model, settings.MODEL_VARIANTS, settings.OPENAI_MODEL_ALIASES)
    if registry.is_offline():
        _refuse_what_the_built_in_model_lacks(asked)
    elif settings.OPENAI_API_STYLE == "responses":
        for name in sorted(CHAT_ONLY & asked.parameters.keys()):
            raise unsupported(name, "is not known to the Responses API, which this server's upstream speaks")
    if asked.max_tokens is None:
        return variant
    return replace(
        variant, max_output_tokens=min(asked.max_tokens, variant.max_output_tokens or asked.max_tokens)
    )


def _refuse_what_the_built_in_model_lacks(asked: ChatRequest) -> None:
    """Raise `RequestError` for what the built-in model does not support."""
    wanted = asked.parameters
    lacking = {
        "response_format": wanted.get("response_format", {"type": "text"})["type"] != "text",
        "stop": "stop" in wanted,
        "tools": bool(asked.tools),
    }
    for name, is_wanted in lacking.items():
        if is_wanted:
            raise unsupported(name, "is not supported by the built-in model")
    for has_any, why in (
        (asked.has_attachments, "The built-in model reads no images and no files."),
        (asked.outputs, "The built-in model calls no tools, so it takes no outputs of them."),
    ):
        if has_any:
            raise RequestError(why, param="messages", code="unsupported_value")


def _end_user(asked: ChatRequest) -> str:
    """Return a hash of the end user that the request names; "" if it names none."""
    named = asked.parameters.get("safety_identifier") or asked.parameters.get("user") or ""
    return (
        hmac.digest(settings.SECRET_KEY.encode(), f"end user:{named}".encode(), "sha256").hex()
        if named
        else ""
    )


def _name_of(request: Request, asked: ChatRequest, end_user: str) -> str:
    """Return the client's name of its conversation, from a header or else from the body; "" if there is none."""
    headers = ((name, request.headers.get(name, "")) for name in settings.OPENAI_CONVERSATION_HEADERS)
    source, name = next(((source, name) for source, name in headers if name), ("body", asked.conversation))
    if len(name) > NAME_CHARS or not name.isprintable():
        raise RequestError(
            f"The name of a conversation has at most {NAME_CHARS} printable characters.",
            param=source if source != "body" else "conversation",
            code="invalid_value",
        )
    return turns.stored_name(source, name, end_user) if name else ""


def _headers(made: CompletionTurn, turn: ExistingReply, context: Mapping[str, Any]) -> dict[str, str]:
    """Return headers that say which chat was chosen, how many tokens were said in it, and how many were sent."""
    said, sent = context.get("said"), _tokens(context)
    told = {
        "x-chatmemory-conversation-id": str(turn.chat_id),
        "x-chatmemory-conversation": made.decision,
        "x-chatmemory-found-by": made.found_by,
        "x-chatmemory-said-tokens": "" if said is None else str(said),
        "x-chatmemory-sent-tokens": str(sent),
    }
    return {name: value for name, value in told.items() if value}


def _tokens(context: Mapping[str, Any]) -> int:
    return sum(section["tokens"] for section in context.get("sections", ()))


async def _final(turn: ExistingReply, own: Generation | None) -> tuple[Message, ReplyError]:
    """Wait for the final message. Return it and why it is not complete, of use only if it is not."""
    message = await streams.final_message(turn.chat_id, turn.message_id)
    if message is None and not generation.is_draining():
        raise NotFound("The chat was deleted while the reply was being written.")
    if message is None:
        raise Unavailable("This server is restarting; the reply goes on. Try again.", retry_after=1)
    if own is not None and own.failure is not None:
        return message, own.failure
    stored = message.error or {}
    return message, ReplyError(
        stored.get("code", "upstream_error"),
        stored.get("message", "The model gave no answer."),
        retry_after=message.retry_after,
    )


async def _chunks(
    answer: Answer, turn: ExistingReply, context: Mapping[str, Any], asked: ChatRequest
) -> AsyncIterator[bytes]:
    with_usage = asked.include_usage
    chunk_of = answer.text_chunks(with_usage=with_usage)
    own = generation.running(turn.message_id)
    has_begun = False
    async for text in streams.texts(turn.chat_id, turn.message_id):
        if not has_begun:
            has_begun = True
            yield answer.first_chunk(with_usage=with_usage)
        yield chunk_of(text) if text else sse.comment()
    message, failure = await _final(turn, own)
    reason = finish_reason(message.status, message.error)
    if reason is None:
        raise ModelFailed(failure, answer.id)
    if not has_begun:
        yield answer.first_chunk(with_usage=with_usage)
    usage = usage_json(message.usage, _tokens(context), message.token_count)
    yield answer.last_chunks(reason, usage if with_usage else None, await _calls(message))


async def _calls(message: Message) -> Sequence[ToolCall]:
    """Return the tool calls of a reply; queried only if there are any."""
    return await executors.read(calls_of, message) if message.payload else ()
