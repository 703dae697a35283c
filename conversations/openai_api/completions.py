"""`POST /v1/chat/completions`: a reply with memory, for any client of OpenAI's API.

A request that is not part of a conversation, such as one for a title, is answered without memory and never stored.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from django.conf import settings
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.api.http import caller
from chatmemory.database import executors
from chatmemory.database.ids import new_id
from chatmemory.errors import ChatBusy, ChatMemoryError, NotFound, Unavailable
from chatmemory.llm import registry
from chatmemory.llm.openai.requests import CHAT_ONLY
from chatmemory.llm.protocol import Prompt, ReplyError, Variant
from chatmemory.text.cleaning import disarm
from chatmemory.text.tokens import count_tokens
from conversations.accounts import quotas, stateless_calls
from conversations.api import streams
from conversations.api.replies import idempotency_key
from conversations.api.stream_response import event_stream
from conversations.api.turn_start import try_begin, wait_and_begin
from conversations.attachments import spooled
from conversations.models import Message
from conversations.openai_api import find_conversation, schema, turns
from conversations.openai_api.answer import (
    Answer,
    Ended,
    completion_id,
    error_end,
    finish_reason,
    unix,
    usage_json,
    variant_named,
)
from conversations.openai_api.chat_request import ChatRequest, read_request
from conversations.openai_api.errors import ModelFailed, RequestError, openai_body, unsupported
from conversations.openai_api.find_conversation import CompletionRequest, TurnPlace
from conversations.openai_api.history import RequestLimits, history_keys, refuse_outputs_alone
from conversations.openai_api.turns import CompletionTurn
from conversations.openai_api.views import OpenAIView
from conversations.replies import generation, reader_limits, sse
from conversations.replies.begin import TurnRequest
from conversations.replies.generation import Generation
from conversations.replies.idempotency import ExistingReply
from conversations.replies.open_turn import ToolOutput, calls_of
from conversations.replies.reader_limits import ReaderSlot
from conversations.replies.stateless import NO_ANSWER, StatelessReply, StatelessRequest
from memory.context.prompt import disarmed_tools, tools_text
from memory.context.record import outline_of
from memory.recall.embeddings import has_vectors, near_in_meaning
from memory.recall.ranking import Near

NAME_CHARS = 200
MESSAGES_OF_INSTRUCTIONS = 10
"""System and developer messages may have as much text together as so many longest messages: more than a model reads."""
TRIES = 3
"""Number of attempts to begin a turn in a chat that changes while the turn is prepared."""
REMEMBER = "x-chatmemory-remember"
"""Request header; `false` if the request is not part of a conversation, such as one for a title."""
TASK_HEADER, TASK = "x-openwebui-task", "### Task:"
"""How Open WebUI marks a request for a title, tags or follow-up questions: by a header, or by how its prompt begins."""

DECISION = "x-chatmemory-conversation"
"""Response header: what became of the request."""


@dataclass(frozen=True, slots=True)
class Opening:
    """A completion, and the place where its turn belongs."""

    completion: CompletionRequest
    place: TurnPlace


class CompletionsView(OpenAIView):
    """Finds the chat that the messages belong to, and sends the model the prompt that memory makes for it."""

    reads_first = True
    answer_frees_memory = True

    @schema.completions_create
    def post(self, request: Request) -> Opening | StatelessRequest | CompletionTurn:
        user = caller(request)
        self.limits = quotas.remaining(user.pk)
        generation.refuse_when_draining()
        data, body_hash = request.data, hashlib.sha256(request._request.body)
        self.drop_body()
        body = read_request(
            data,
            RequestLimits(
                message_chars=settings.MESSAGE_MAX_CHARS,
                instructions_chars=MESSAGES_OF_INSTRUCTIONS * settings.MESSAGE_MAX_CHARS,
                attachment_bytes=settings.ATTACHMENT_MAX_BYTES,
            ),
        )
        del data
        variant = _variant(body)
        self.body = replace(body, history=(), new=())
        end_user = _end_user(body)
        name = _name_of(request, body, end_user)
        body_hash.update(name.encode())  # the same words in another conversation are another request
        if not name or not body.store:
            refuse_outputs_alone((*body.history, *body.new))
        if not _is_to_be_stored(request, body):
            return _stateless(body, variant)
        completion = CompletionRequest(
            user,
            body,
            history_keys(settings.SECRET_KEY.encode(), user.pk, body.history, body.new, end_user),
            TurnRequest(
                message=body.question,
                variant=variant,
                instructions=body.instructions,
                parameters=body.parameters,
                tools=body.tools,
                outputs=tuple(ToolOutput(one.call_id, one.content) for one in body.outputs),
                attachments=body.attachments,
            ),
            body_hash.digest(),
            name=name,
            end_user=end_user,
            is_retry=request.headers.get("x-stainless-retry-count", "0") not in ("0", ""),
            idempotency_key=idempotency_key(request),
        )
        existing = turns.find_existing(completion)
        if existing is not None:
            return existing
        place = find_conversation.find(completion)
        return _stateless(body, variant) if place.decision == "not stored" else Opening(completion, place)

    async def answer(self, opened: Any) -> HttpResponseBase:
        user_id = caller(self.request).pk
        if isinstance(opened, StatelessRequest):
            await self.memory.aclose()
            reserved = await stateless_calls.begin(user_id, quotas.tokens_for(opened.tokens, opened.variant))
            unstored = UnstoredReply(replace(opened, call=reserved))
            return await self._respond(completion_id(new_id()), unstored, {DECISION: "not stored"})
        if isinstance(opened, Opening):
            beginning = _begun(opened)
            del opened
            completion = await beginning
        else:
            completion = opened
        await self.memory.aclose()
        slot = None
        if isinstance(completion.turn, ExistingReply):
            turn = completion.turn
            slot = reader_limits.take(user_id, await executors.read(quotas.readers_allowed, user_id))
            context = await executors.read(outline_of, turn.message_id)
        else:
            generation.start(completion.turn)
            pending = completion.turn.pending
            turn = ExistingReply(pending.chat_id, pending.user_message.pk, pending.message_id)
            context = pending.context.to_json()
        reply = StoredReply(turn, _tokens(context), generation.running(turn.message_id))
        headers = _headers(completion, turn, context)
        return await self._respond(completion_id(turn.message_id), reply, headers, slot)

    async def _respond(
        self, answer_id: str, reply: ReadReply, headers: Mapping[str, str], slot: ReaderSlot | None = None
    ) -> HttpResponseBase:
        answer = Answer(answer_id, unix(timezone.now()), self.body.model)
        try:
            if self.body.stream:
                chunks = await _begun_stream(_chunks(answer, reply, with_usage=self.body.include_usage))
                response: HttpResponseBase = event_stream(chunks, slot)
            else:  # the slot is held until this returns
                response = Response(answer.completion(await reply.ended()))
        except ModelFailed as failed:
            response = self._failed(failed)
        for name, value in headers.items():
            response[name] = value
        return response


# How a turn begins


async def _begun(opening: Opening) -> CompletionTurn:
    """Begin the turn in its place. If the chat has changed since it was found, look for the place again."""
    completion, place = opening.completion, opening.place
    user, question = completion.user, completion.turn.message
    for _ in range(TRIES):
        prepared = None
        if place.decision in ("imported", "branched"):
            prepared = await executors.slow(turns.prepare, completion, place)
        near: tuple[Near, ...] = ()
        chat = place.chat if question and registry.embeds() else None
        if chat is not None and await executors.read(has_vectors, user, chat.pk):
            near = await near_in_meaning(chat.pk, question)
        begin = partial(turns.begin, completion, place, prepared, near=near)
        turn: CompletionTurn | None = await wait_and_begin(await executors.write(try_begin, begin))
        if turn is not None:
            return turn
        place = await executors.read(find_conversation.find, completion)
    raise ChatBusy("The conversation keeps changing. Try again in a moment.", retry_after=1)


def _is_to_be_stored(request: Request, body: ChatRequest) -> bool:
    """Return whether the completion becomes a turn of a chat."""
    is_task = TASK_HEADER in request.headers or (not body.history and body.question.startswith(TASK))
    return body.store and not is_task and request.headers.get(REMEMBER, "").lower() != "false"


def _stateless(body: ChatRequest, variant: Variant) -> StatelessRequest:
    breaks = disarm if registry.disarms_control_tokens() else str
    messages = tuple(one.as_prompt(breaks) for one in (*body.history, *body.new))
    messages = tuple(replace(one, attachments=tuple(map(spooled, one.attachments))) for one in messages)
    instructions, tools = breaks(body.instructions), disarmed_tools(body.tools, breaks)
    prompt = Prompt(messages, instructions=instructions, parameters=body.parameters, tools=tools)
    operator = f"{instructions}\n{tools_text(tools)}" if tools else instructions
    return StatelessRequest(prompt, variant, stateless_calls.count(messages, operator))


def _variant(body: ChatRequest) -> Variant:
    """Return the named variant with the request's own limit. Raises for what the upstream does not support."""
    variant = variant_named(body.model, settings.MODEL_VARIANTS, settings.OPENAI_MODEL_ALIASES)
    if registry.is_offline():
        _refuse_what_the_built_in_model_lacks(body)
    elif settings.OPENAI_API_STYLE == "responses":
        for name in sorted(CHAT_ONLY & body.parameters.keys()):
            raise unsupported(name, "is not known to the Responses API, which this server's upstream speaks")
    if body.max_tokens is None:
        return variant
    return replace(
        variant, max_output_tokens=min(body.max_tokens, variant.max_output_tokens or body.max_tokens)
    )


def _refuse_what_the_built_in_model_lacks(body: ChatRequest) -> None:
    """Raise `RequestError` for what the built-in model does not support."""
    parameters = body.parameters
    for name, is_requested in (
        ("response_format", parameters.get("response_format", {"type": "text"})["type"] != "text"),
        ("stop", "stop" in parameters),
        ("tools", bool(body.tools)),
    ):
        if is_requested:
            raise unsupported(name, "is not supported by the built-in model")
    for has_any, why in (
        (body.has_attachments, "The built-in model reads no images and no files."),
        (body.outputs, "The built-in model calls no tools, so it takes no outputs of them."),
    ):
        if has_any:
            raise RequestError(why, param="messages", code="unsupported_value")


def _end_user(body: ChatRequest) -> str:
    """Return a hash of the end user that the request names; "" if it names none."""
    name = body.parameters.get("safety_identifier") or body.parameters.get("user")
    if not name:
        return ""
    return hmac.digest(settings.SECRET_KEY.encode(), f"end user:{name}".encode(), "sha256").hex()


def _name_of(request: Request, body: ChatRequest, end_user: str) -> str:
    """Return the client's name of its conversation, from a header or else from the body; "" if there is none.

    As it is stored: with where it stood, and apart for each end user.
    """
    headers = ((name, request.headers.get(name, "")) for name in settings.OPENAI_CONVERSATION_HEADERS)
    source, name = next(((source, name) for source, name in headers if name), ("body", body.conversation))
    if len(name) > NAME_CHARS or not name.isprintable():
        raise RequestError(
            f"The name of a conversation has at most {NAME_CHARS} printable characters.",
            param=source if source != "body" else "conversation",
            code="invalid_value",
        )
    return name and f"{end_user[:16]}{'/' if end_user else ''}{source}:{name}"


# How a reply is read


class ReadReply(Protocol):
    """A reply while it is read, stored or not."""

    def texts(self) -> AsyncIterator[str]:
        """Stream its text; yield "" whenever nothing has come for `sse.KEEP_ALIVE_SECONDS`."""

    async def ended(self) -> Ended:
        """Wait for its end. Raises `ModelFailed` if the model did not answer."""


@dataclass(frozen=True, slots=True)
class StoredReply:
    """The reply of a turn. Whoever reads it changes nothing."""

    turn: ExistingReply
    prompt_tokens: int
    own: Generation | None
    """Its generation, if it is this process that writes it: that knows best why it failed."""

    def texts(self) -> AsyncIterator[str]:
        return streams.texts(self.turn.chat_id, self.turn.message_id)

    async def ended(self) -> Ended:
        message = await streams.final_message(self.turn.chat_id, self.turn.message_id)
        if message is None and not generation.is_draining():
            raise NotFound("The chat was deleted while the reply was being written.")
        if message is None:
            raise Unavailable("This server is restarting; the reply goes on. Try again.", retry_after=1)
        reason = finish_reason(message.status, message.error)
        if reason is None:
            raise ModelFailed(self._failure(message), completion_id(self.turn.message_id))
        calls = await executors.read(calls_of, message) if message.payload else ()
        usage = usage_json(message.usage, self.prompt_tokens, message.token_count)
        return Ended(message.content, reason, usage, calls)

    def _failure(self, message: Message) -> ReplyError:
        if self.own is not None and self.own.failure is not None:
            return self.own.failure
        error = message.error or {}
        return ReplyError(
            error.get("code", "upstream_error"),
            error.get("message", "The model gave no answer."),
            retry_after=message.retry_after,
        )


class UnstoredReply:
    """A reply of which nothing is stored. Who leaves it ends it."""

    def __init__(self, call: StatelessRequest) -> None:
        self._call = call

    async def texts(self) -> AsyncIterator[str]:
        with StatelessReply(self._call) as reading:
            while not reading.is_over:
                text = await reading.more(sse.KEEP_ALIVE_SECONDS)
                if text or not reading.is_over:
                    yield text
            self._reading = reading
            await reading.settle()

    async def ended(self) -> Ended:
        if not hasattr(self, "_reading"):
            async for _ in self.texts():
                pass
        message = self._reading.message()
        reason = finish_reason(message["status"], message["error"])
        if reason is None:
            raise ModelFailed(self._reading.failure or NO_ANSWER)
        text = message["content"]
        usage = usage_json(message["usage"], self._call.tokens, count_tokens(text))
        return Ended(text, reason, usage, self._reading.calls)


async def _chunks(answer: Answer, reply: ReadReply, *, with_usage: bool) -> AsyncIterator[bytes]:
    chunk_of = answer.text_chunks(with_usage=with_usage)
    has_begun = False
    async for text in reply.texts():
        if not has_begun:
            has_begun = True
            yield answer.first_chunk(with_usage=with_usage)
        yield chunk_of(text) if text else sse.comment()
    end = await reply.ended()
    if not has_begun:
        yield answer.first_chunk(with_usage=with_usage)
    yield answer.last_chunks(end, with_usage=with_usage)


async def _begun_stream(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Return `pieces`, of which the first has come, so that a failure before it has a status of its own.

    Raises what they raise before it; later, they end in an error. The wait is bounded: if a model says nothing for
    `sse.KEEP_ALIVE_SECONDS`, the first piece is a comment.
    """
    first = await anext(pieces)
    return _after(first, pieces)


async def _after(first: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    try:
        async for piece in pieces:
            yield piece
    except ModelFailed as failed:
        yield error_end(failed.body())
    except ChatMemoryError as error:
        yield error_end(openai_body(error.status, {"code": error.code, "message": error.message}))


def _headers(completion: CompletionTurn, turn: ExistingReply, context: Mapping[str, Any]) -> dict[str, str]:
    """Return headers that say which chat was chosen, how many tokens were said in it, and how many were sent."""
    said = context.get("said")
    values = {
        "x-chatmemory-conversation-id": str(turn.chat_id),
        DECISION: completion.decision,
        "x-chatmemory-found-by": completion.found_by,
        "x-chatmemory-said-tokens": "" if said is None else str(said),
        "x-chatmemory-sent-tokens": str(_tokens(context)),
    }
    return {name: value for name, value in values.items() if value}


def _tokens(context: Mapping[str, Any]) -> int:
    return sum(section["tokens"] for section in context.get("sections", ()))
