"""`POST /v1/chat/completions`: a reply with memory, for any client of OpenAI's API.

A request that is not part of a conversation, such as one for a title, is answered without memory and never stored.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.conf import settings
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.api.http import caller
from chatmemory.database import executors
from chatmemory.database.ids import new_id
from chatmemory.errors import ChatBusy, ChatMemoryError
from chatmemory.llm import registry
from chatmemory.llm.openai.requests import CHAT_ONLY
from chatmemory.llm.protocol import Prompt, Variant
from chatmemory.text.cleaning import disarm
from conversations.accounts import quotas
from conversations.api.replies import idempotency_key
from conversations.attachments import spooled
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
from conversations.replies import generation, sse, stream
from conversations.replies.begin import begin_when_ready
from conversations.replies.generation import UnstoredReply
from conversations.replies.open_turn import ToolOutput
from conversations.replies.reply import ExistingReply, ReplyHead, TurnRequest, failure_of
from conversations.replies.stream import Reader, ReaderSlot, streamed
from memory.context.prompt import disarmed_tools, tools_text
from memory.recall.embeddings import has_vectors

NAME_CHARS = 200
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
    def post(self, request: Request) -> Opening | UnstoredReply | CompletionTurn:
        user = caller(request)
        self.limits = quotas.remaining(user.pk)
        generation.refuse_when_draining()
        data, body_hash = request.data, hashlib.sha256(request._request.body)
        self.drop_body()
        body = read_request(
            data,
            RequestLimits(settings.MESSAGE_MAX_CHARS, settings.ATTACHMENT_MAX_BYTES),
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
        if isinstance(opened, UnstoredReply):
            await self.memory.aclose()
            await opened.reserve(user_id)
            return await self._respond(
                completion_id(new_id()), Reader(opened), opened.prompt_tokens, {DECISION: "not stored"}
            )
        if isinstance(opened, Opening):
            beginning = _begun(opened)
            del opened
            completion = await beginning
        else:
            completion = opened
        await self.memory.aclose()
        slot = None
        if isinstance(completion.turn, ExistingReply):  # one more reader of it
            head, slot = await stream.attach(user_id, completion.turn)
        else:
            generation.start(completion.turn)
            head = completion.turn.pending.head
        reader, tokens = Reader.of(head.chat_id, head.message_id), head.prompt_tokens
        return await self._respond(
            completion_id(head.message_id), reader, tokens, _headers(completion, head), slot
        )

    async def _respond(
        self,
        answer_id: str,
        reader: Reader,
        prompt_tokens: int,
        headers: Mapping[str, str],
        slot: ReaderSlot | None = None,
    ) -> HttpResponseBase:
        answer = Answer(answer_id, unix(timezone.now()), self.body.model)
        try:
            if self.body.stream:
                chunks = _chunks(answer, reader, prompt_tokens, with_usage=self.body.include_usage)
                response: HttpResponseBase = streamed(await _begun_stream(chunks), slot)
                slot = None  # the response holds it
            else:
                with reader:
                    response = Response(answer.completion(await _ended(reader, prompt_tokens)))
        except ModelFailed as failed:
            response = self._failed(failed)
        finally:
            if slot is not None:
                slot.release()
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
        search = None
        chat = place.chat if question and registry.embeds() else None
        if chat is not None and await executors.read(has_vectors, user, chat.pk):
            search = chat.pk, question
        turn = await begin_when_ready(partial(turns.begin, completion, place, prepared), search)
        if turn is not None:
            return turn
        place = await executors.read(find_conversation.find, completion)
    raise ChatBusy("The conversation keeps changing. Try again in a moment.", retry_after=1)


def _is_to_be_stored(request: Request, body: ChatRequest) -> bool:
    """Return whether the completion becomes a turn of a chat."""
    is_task = TASK_HEADER in request.headers or (not body.history and body.question.startswith(TASK))
    return body.store and not is_task and request.headers.get(REMEMBER, "").lower() != "false"


def _stateless(body: ChatRequest, variant: Variant) -> UnstoredReply:
    breaks = disarm if registry.disarms_control_tokens() else str
    messages = tuple(one.with_texts(breaks) for one in (*body.history, *body.new))
    messages = tuple(replace(one, attachments=tuple(map(spooled, one.attachments))) for one in messages)
    instructions, tools = breaks(body.instructions), disarmed_tools(body.tools, breaks)
    prompt = Prompt(messages, instructions=instructions, parameters=body.parameters, tools=tools)
    operator = f"{instructions}\n{tools_text(tools)}" if tools else instructions
    return UnstoredReply(prompt, variant, generation.count_prompt(messages, operator))


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


async def _ended(reader: Reader, prompt_tokens: int) -> Ended:
    """Wait for the end of a reply. Raises `ModelFailed` if the model did not answer."""
    message = await reader.final()
    calls = await reader.calls(message)
    reason = finish_reason(message.status, message.error)
    if reason is None:
        is_stored = message.chat_id is not None
        raise ModelFailed(failure_of(message), completion_id(message.pk) if is_stored else None)
    usage = usage_json(message.usage, prompt_tokens, message.token_count)
    return Ended(message.content, reason, usage, calls)


async def _chunks(
    answer: Answer, reader: Reader, prompt_tokens: int, *, with_usage: bool
) -> AsyncIterator[bytes]:
    chunk_of = answer.text_chunks(with_usage=with_usage)
    has_begun = False
    with reader:
        async for text in reader.texts():
            if not has_begun:
                has_begun = True
                yield answer.first_chunk(with_usage=with_usage)
            yield chunk_of(text) if text else sse.comment()
        end = await _ended(reader, prompt_tokens)
    if not has_begun:
        yield answer.first_chunk(with_usage=with_usage)
    yield answer.last_chunks(end, with_usage=with_usage)


async def _begun_stream(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Return `pieces`, of which the first has come, so that a failure before it has a status of its own.

    Raises what they raise before it; later, they end in an error. The wait is bounded: if a model says nothing for
    `sse.KEEP_ALIVE_SECONDS`, the first piece comes all the same.
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


def _headers(completion: CompletionTurn, head: ReplyHead) -> dict[str, str]:
    """Return headers that say which chat was chosen, how many tokens were said in it, and how many were sent."""
    said = head.snapshot.history_tokens if head.snapshot else None
    values = {
        "x-chatmemory-conversation-id": str(head.chat_id),
        DECISION: completion.decision,
        "x-chatmemory-found-by": completion.found_by,
        "x-chatmemory-said-tokens": "" if said is None else str(said),
        "x-chatmemory-sent-tokens": str(head.prompt_tokens),
    }
    return {name: value for name, value in values.items() if value}
