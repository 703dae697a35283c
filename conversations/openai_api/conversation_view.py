"""`POST /v1/chat/completions`, and what it has in common with responses: a reply with memory for any client.

A request that is not part of a conversation, such as one for a title, is answered without memory and never stored.
"""

import hashlib
import hmac
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.api.http import caller
from chatmemory.database import executors
from chatmemory.errors import ChatBusy, ChatMemoryError
from chatmemory.llm import registry
from chatmemory.llm.openai.requests import CHAT_ONLY, RESPONSES_ONLY
from chatmemory.llm.protocol import Prompt, Variant
from chatmemory.text.turn_line import plain_title
from conversations.accounts.authentication import remembers_named
from conversations.api.replies import idempotency_key
from conversations.attachments import spooled
from conversations.models import MAX_PROJECT_CHARS
from conversations.openai_api import chat_request, find_conversation, schema, turns
from conversations.openai_api.answer import CompletionFormat, Ended
from conversations.openai_api.errors import ModelFailed, RequestError, unsupported
from conversations.openai_api.find_conversation import CompletionRequest, TurnPlace
from conversations.openai_api.history import history_keys, refuse_outputs_alone
from conversations.openai_api.model_names import variant_named
from conversations.openai_api.response import ResponseFormat
from conversations.openai_api.views import OpenAIView
from conversations.openai_api.wire import ChatRequest, RequestLimits
from conversations.replies import events, generation, stream
from conversations.replies.begin import begin_when_ready
from conversations.replies.generation import GrowingReply, UnstoredReply
from conversations.replies.reply import BegunTurn, ExistingReply, ReplyHead
from conversations.replies.stream import streamed

AnswerFormat = CompletionFormat | ResponseFormat
"""How a reply is sent, whole or in pieces."""

NAME_CHARS = 200
TRIES = 3
"""Number of attempts to begin a turn in a chat that changes while the turn is prepared."""
TASK_HEADER, TASK, TASK_TEXTS = "x-openwebui-task", "### Task:", ("<chat_history>", "### Chat History")
"""How Open WebUI marks a request for a title, tags or follow-up questions: by a header, or by its prompt, which begins
like that and quotes the chat. A question with documents begins like that, too."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A completion or a response whose request is read."""

    streams: bool
    answer: AnswerFormat
    reply: UnstoredReply | None = None
    """A reply without memory."""
    turn: tuple[CompletionRequest, TurnPlace] | None = None
    """Else the turn, and its place."""


class ConversationView(OpenAIView[Prepared]):
    """Finds the chat that a request belongs to, and sends the model the prompt that memory makes for it."""

    stores_in_respond = True

    def read(self, data: object, user: User, limits: RequestLimits) -> ChatRequest:
        """Read the body of a request."""
        raise NotImplementedError

    def formatted(self, body: ChatRequest, *, is_stored: bool) -> AnswerFormat:
        """Return how the reply is sent."""
        raise NotImplementedError

    def prepared(self, request: Request) -> Prepared:
        """Read the request, and find its place. Raises `RequestError`, `NotFound` and `IdempotencyMismatch`."""
        generation.refuse_when_draining()
        data, body_hash = request.data, hashlib.sha256(request._request.body)
        self.drop_body()
        user = self.identify(request, data)
        limits = RequestLimits(settings.MESSAGE_MAX_CHARS, settings.ATTACHMENT_MAX_BYTES, _takes)
        body = self.read(data, user, limits)
        del data
        if body.ignored:
            self.answer_headers["x-chatmemory-ignored"] = ", ".join(body.ignored)
        variant = _variant(body)
        project = project_of(request)
        end_user = end_user_of(user, body.parameters, project)
        name = _name_of(request, body, end_user)
        body_hash.update(f"{project}{name}".encode())  # the same words in another conversation are another request
        stores = body.store or bool(name and remembers_named(request.auth))
        if not (name or body.previous) or not stores:
            refuse_outputs_alone((*body.history, *body.new), body.wording)
        if (
            TASK_HEADER in request.headers
            or _is_task(body)
            or not (stores and body.is_turn)
            or request.headers.get(schema.REMEMBER, "").lower() == "false"
        ):
            if body.previous is not None:
                raise unsupported("previous_response_id", "cannot be used in a request that is not stored")
            return self._unstored(body, variant)
        turn, previous = None, None
        if body.previous is not None:
            turn, previous = find_conversation.previous_of(user, end_user, body.previous)
        secret = settings.SECRET_KEY.encode()
        completion = CompletionRequest(
            user,
            body,
            variant,
            history_keys(secret, user.pk, body.history, body.new, end_user, previous),
            body_hash.digest(),
            name=name,
            end_user=end_user,
            project=project,
            is_retry=request.headers.get("x-stainless-retry-count", "0") not in ("0", ""),
            idempotency_key=idempotency_key(request),
            previous=turn,
        )
        place = find_conversation.find(completion)
        if place.decision == "not stored":
            return self._unstored(body, variant)
        return Prepared(body.stream, self.formatted(body, is_stored=True), turn=(completion, place))

    def _unstored(self, body: ChatRequest, variant: Variant) -> Prepared:
        sent = (*body.history, *body.new)
        messages = tuple(replace(one, attachments=tuple(map(spooled, one.attachments))) for one in sent)
        prompt = Prompt(messages, instructions=body.instructions, parameters=body.parameters, tools=body.tools)
        return Prepared(body.stream, self.formatted(body, is_stored=False), UnstoredReply(prompt, variant))

    async def respond(self, prepared: Prepared) -> HttpResponseBase:
        user, slot, answer = caller(self.request), None, prepared.answer
        reply: GrowingReply
        if prepared.reply is not None:
            await self.memory.aclose()
            await prepared.reply.reserve(user)
            self.answer_headers[schema.DECISION] = "not stored"
            reply, prompt_tokens = prepared.reply, prepared.reply.prompt_tokens
        else:
            assert prepared.turn is not None
            turn, place = await _begun(*prepared.turn)
            prepared = replace(prepared, turn=None)
            await self.memory.aclose()
            head, slot = await stream.open_reader(user.pk, turn)
            self.answer_headers |= _conversation_headers(head, place)
            answer = replace(answer, message_id=head.message_id)
            reply, prompt_tokens = stream.reply_of(head.chat, head.message_id), head.prompt_tokens
        with ExitStack() as reading:
            if slot is not None:
                reading.callback(slot.close)
            if prepared.streams:
                rest = pieces(answer, reply, prompt_tokens, raises=True)
                first = await anext(rest)  # a failure before it has a status of its own
                reading.pop_all()  # the response holds the slot
                return streamed(_with_first(first, rest), slot)
            reading.enter_context(reply)
            end = await _ended(reply, prompt_tokens, answer)
            if end.failure is not None:
                raise end.failure
            return Response(answer.whole(end))


class CompletionsView(ConversationView):
    @schema.completions_create
    def post(self, request: Request) -> Prepared:
        """A completion with memory, for OpenAI's clients. Finds the chat that the messages belong to, stores what is
        new, and sends the model a prompt within the budget instead of the history. Errors have OpenAI's shape.
        """
        return self.prepared(request)

    def read(self, data: object, user: User, limits: RequestLimits) -> ChatRequest:
        return chat_request.read_request(data, limits)

    def formatted(self, body: ChatRequest, *, is_stored: bool) -> CompletionFormat:
        return CompletionFormat(body.model, body.include_usage)


def _conversation_headers(head: ReplyHead, place: TurnPlace) -> dict[str, str]:
    """Return what became of the request, as headers."""
    count = head.snapshot.history_tokens if head.snapshot else None
    headers = {
        schema.CHAT: str(head.chat.id),
        schema.DECISION: place.decision,
        schema.FOUND_BY: place.found_by,
        **dict.fromkeys(schema.HISTORY_TOKENS, "" if count is None else str(count)),
        schema.SENT_TOKENS: str(head.prompt_tokens),
    }
    return {name: value for name, value in headers.items() if value}


# Who asks, and for what


def _is_task(body: ChatRequest) -> bool:
    """Whether the request is for a title, tags or the like. Its answer is read whole, and calls no tools."""
    is_alone = not (body.history or body.stream or body.tools)
    return is_alone and body.question.startswith(TASK) and any(one in body.question for one in TASK_TEXTS)


def _variant(body: ChatRequest) -> Variant:
    """Return the named variant with the request's own limit. Raises for what its upstream does not support.

    A fallback that does not support it does not answer this request.
    """
    variant = variant_named(body.model)
    if refusal := _refusal(body, variant):
        raise refusal
    if variant.fallback and _refusal(body, variant.fallback):
        variant = replace(variant, fallback=None)
    return variant if body.max_tokens is None else variant.limited_to(body.max_tokens)


def _takes(model: object, name: str) -> bool:
    """Whether the model that a body names takes a parameter that Chat Completions does not have."""
    with suppress(RequestError):
        return isinstance(model, str) and variant_named(model).takes(name)
    return False


def _refusal(body: ChatRequest, variant: Variant) -> RequestError | None:
    """Return an error for what the variant's upstream does not support."""
    upstream, parameters = registry.upstream_of(variant), body.parameters
    for name in parameters.keys() - chat_request.ChatParameters.model_fields.keys() - RESPONSES_ONLY:
        if not variant.takes(name):  # a fallback
            return unsupported(name)
    if upstream is None:
        response_format = parameters.get("response_format", {"type": "text"})["type"]
        lacking = {
            "response_format": response_format != "text",
            "stop": "stop" in parameters,
            "tools": body.tools,
        }
        for name in (name for name, is_requested in lacking.items() if is_requested):
            return unsupported(name, "is not supported by the built-in model")
        if body.outputs or any(one.attachments for one in (*body.history, *body.new)):
            why = "The built-in model reads no images and no files, and takes no outputs of tools."
            return RequestError(why, param=body.wording.field, code="unsupported_value")
    elif upstream.style == "responses":
        for name in sorted(CHAT_ONLY & parameters.keys()):
            return unsupported(name, "is not known to the Responses API, which this server's upstream speaks")
    return None


def project_of(request: Request) -> str:
    """Return the project that a header names, as it is stored; "" for none."""
    name = plain_title(request.headers.get(schema.PROJECT, "").encode("latin-1").decode(errors="replace"))
    if len(name) > MAX_PROJECT_CHARS:
        why = f"The name of a project has at most {MAX_PROJECT_CHARS} characters."
        raise RequestError(why, param=schema.PROJECT, code="invalid_value")
    return name


def end_user_of(user: User, parameters: Mapping[str, Any], project: str) -> str:
    """Return a hash of the end user and the project that the request names; "" if it names neither.

    If the account is a person's, it is the end user, and no other is named.
    """
    name = "" if hasattr(user, "end_user") else parameters.get("safety_identifier") or parameters.get("user")
    secret = settings.SECRET_KEY.encode()
    named = f"project:{project}\nend user:{name}" if project else f"end user:{name}" if name else ""
    return hmac.digest(secret, named.encode(), "sha256").hex() if named else ""


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


# How a reply begins


async def _begun(completion: CompletionRequest, place: TurnPlace) -> tuple[BegunTurn | ExistingReply, TurnPlace]:
    """Begin the turn in its place. If the chat has changed since it was found, look for the place again.

    If it always has, others continue the same history in words of their own: then the turn has a chat of its own.
    """
    question = completion.request.question
    for attempt in range(TRIES + 1):
        if attempt == TRIES:
            place = place.apart()
        if place.existing is not None:
            return place.existing, place
        prepared = None
        if place.decision in ("imported", "branched") or place.unseen:
            prepared = await executors.slow(turns.prepare, completion, place)
        search = (place.chat.key, question) if place.chat and question else None
        begun = await begin_when_ready(partial(turns.begin, completion, place, prepared), search)
        if begun is not None:
            return begun
        place = await executors.read(find_conversation.find, completion)
    raise ChatBusy("The conversation keeps changing. Try again in a moment.")


# How a reply is read


async def _ended(reply: GrowingReply, prompt_tokens: int, answer: AnswerFormat) -> Ended:
    """Wait for the end of a reply."""
    message = await stream.final_of(reply)
    end = Ended.of(message, await stream.tool_calls_of(reply, message), prompt_tokens)
    if end.reason is not None:
        return end
    stored_as = {answer.kind: [answer.id]} if message.chat_id else None
    return replace(end, failure=ModelFailed(stream.failure_of(reply, message), stored_as))


async def pieces(
    answer: AnswerFormat, reply: GrowingReply, prompt_tokens: int, after: int = 0, *, raises: bool = False
) -> AsyncIterator[bytes]:
    """Yield an answer in pieces, its text after so many code points. If a model says nothing for long, the first of
    them comes all the same.

    An error is the last piece; with `raises`, one before the first piece is raised.
    """
    first = answer.first()
    try:
        with reply:
            async for text in stream.texts_of(reply, after):
                yield first + (answer.text(text) if text else events.KEEP_ALIVE)
                first, raises = b"", False
            end = await _ended(reply, prompt_tokens, answer)
        if raises and end.failure is not None:
            raise end.failure
        yield first + answer.last(end)
    except ChatMemoryError as error:
        if raises:
            raise
        yield answer.failed(error)


async def _with_first(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece
