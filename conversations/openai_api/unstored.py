"""Completions that are not part of a conversation, such as one for a title: answered without memory, never stored."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.database.ids import new_id
from chatmemory.llm import registry
from chatmemory.llm.protocol import Prompt, Variant
from chatmemory.text.control_tokens import disarm
from chatmemory.text.tokens import count_tokens
from conversations.accounts import quotas, stateless_calls
from conversations.api.stream_response import event_stream
from conversations.attachments import spooled
from conversations.openai_api.chat_answer import (
    Answer,
    completion_id,
    finish_reason,
    unix,
    usage_json,
)
from conversations.openai_api.chat_request import ChatRequest
from conversations.openai_api.errors import ModelFailed
from conversations.openai_api.first_piece import begun
from conversations.replies import sse
from conversations.replies.stateless import NO_ANSWER, StatelessReply, StatelessRequest
from memory.context.assemble import disarmed_tools, tools_text

REMEMBER = "x-chatmemory-remember"
"""Request header; `false` if the request is not part of a conversation, such as one for a title."""
TASK_HEADER, TASK = "x-openwebui-task", "### Task:"
"""How Open WebUI marks a request for a title, tags or follow-up questions: by a header, or by how its prompt begins."""


@dataclass(frozen=True, slots=True)
class Unstored:
    """A completion of which nothing is stored."""

    request: ChatRequest
    call: StatelessRequest

    @classmethod
    def of(cls, asked: ChatRequest, variant: Variant) -> Unstored:
        """The completion that `asked` requests."""
        return cls(replace(asked, history=(), new=()), _stateless(asked, variant))


def is_to_be_stored(request: Request, asked: ChatRequest) -> bool:
    """Return whether the completion becomes a turn of a chat."""
    is_task = TASK_HEADER in request.headers or (not asked.history and asked.question.startswith(TASK))
    return asked.store and not is_task and request.headers.get(REMEMBER, "").lower() != "false"


async def answer(user_id: int, opened: Unstored) -> HttpResponseBase:
    """Ask the model, and return its answer: a stream, or a `Response` that still has to be rendered."""
    tokens = quotas.tokens_for(opened.call.tokens, opened.call.variant)
    call = replace(opened.call, call=await stateless_calls.begin(user_id, tokens))
    made = Answer(completion_id(new_id()), unix(timezone.now()), opened.request.model)
    if opened.request.stream:
        chunks = _chunks(made, call, with_usage=opened.request.include_usage)
        response: HttpResponseBase = event_stream(await begun(chunks))
    else:
        response = await _whole(made, call)
    response["x-chatmemory-conversation"] = "not stored"
    return response


def _stateless(asked: ChatRequest, variant: Variant) -> StatelessRequest:
    breaks = disarm if registry.disarms_control_tokens() else str
    messages = tuple(one.as_prompt(breaks) for one in (*asked.history, *asked.new))
    messages = tuple(replace(one, attachments=tuple(map(spooled, one.attachments))) for one in messages)
    instructions, tools = breaks(asked.instructions), disarmed_tools(asked.tools, breaks)
    prompt = Prompt(messages, instructions=instructions, parameters=asked.parameters, tools=tools)
    operator = f"{instructions}\n{tools_text(tools)}" if tools else instructions
    return StatelessRequest(prompt, variant, stateless_calls.count(messages, operator))


async def _chunks(answer: Answer, call: StatelessRequest, *, with_usage: bool) -> AsyncIterator[bytes]:
    chunk_of = answer.text_chunks(with_usage=with_usage)
    has_begun = False
    with StatelessReply(call) as reading:
        while not reading.is_over:
            text = await reading.more(sse.KEEP_ALIVE_SECONDS)
            if text or not reading.is_over:
                if not has_begun:
                    has_begun = True
                    yield answer.first_chunk(with_usage=with_usage)
                yield chunk_of(text) if text else sse.comment()
        message, calls, failure = reading.message(), reading.calls, reading.failure
        await reading.settle()
    reason = finish_reason(message["status"], message["error"])
    if reason is None:
        raise ModelFailed(failure or NO_ANSWER)
    if not has_begun:
        yield answer.first_chunk(with_usage=with_usage)
    usage = _usage_of(call, message)
    yield answer.last_chunks(reason, usage if with_usage else None, calls)


async def _whole(answer: Answer, call: StatelessRequest) -> Response:
    with StatelessReply(call) as reading:
        while not reading.is_over:
            await reading.more(sse.KEEP_ALIVE_SECONDS)
        await reading.settle()
        message, calls, failure = reading.message(), reading.calls, reading.failure
    reason = finish_reason(message["status"], message["error"])
    if reason is None:
        raise ModelFailed(failure or NO_ANSWER)
    return Response(answer.completion(message["content"], reason, _usage_of(call, message), calls))


def _usage_of(call: StatelessRequest, message: Mapping[str, Any]) -> dict[str, Any]:
    return usage_json(message["usage"], call.tokens, count_tokens(message["content"]))
