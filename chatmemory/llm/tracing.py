"""The span of a call to a model, by OpenTelemetry's conventions for generative AI.

What was said is in it only with `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true`.
"""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.trace import Span, SpanKind

from chatmemory.llm.openai.requests import OPENAI_URL
from chatmemory.llm.protocol import Completion, Prompt, PromptMessage, Reply, ToolCall, Upstream, Variant
from chatmemory.runtime import tracing

CAPTURES = os.environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").lower() == "true"
REASONS = {"too_long": "length", "refused": "content_filter"}
"""Why a model stopped, by the codes of `ReplyError` that say so. Its other codes are errors of the call."""


def chat_span(
    prompt: Prompt,
    variant: Variant,
    upstream: Upstream | None,
    *,
    stream: bool,
    user_id: int | None = None,
    is_compacted: bool = False,
) -> AbstractContextManager[Span]:
    """The span of the call in the block; `upstream` is None for the built-in model. Call `answered` in the block."""
    if not tracing.is_on:
        return tracing.OFF
    asked: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai" if upstream else tracing.NAME,  # or who else speaks its protocol
        "gen_ai.request.model": variant.model,
        "gen_ai.request.stream": stream,
    }
    if prompt.cache_key:
        asked |= dict.fromkeys(tracing.CHAT_ID, prompt.cache_key)
    if user_id is not None:
        asked["user.id"] = tracing.user_hash(user_id)
    if is_compacted:  # by its definition, it is never false
        asked["gen_ai.conversation.compacted"] = True
    if upstream:
        url = urlsplit(upstream.base_url or OPENAI_URL)
        port = url.port or (443 if url.scheme == "https" else 80)
        asked |= {"server.address": url.hostname or "", "server.port": port}
    if CAPTURES:
        asked["gen_ai.input.messages"] = json.dumps([_message(one) for one in prompt.messages])
        asked["gen_ai.system_instructions"] = json.dumps(_parts(prompt.instructions))
    return tracing.span(f"chat {variant.model}", SpanKind.CLIENT, told=asked)


def answered(current: Span, answer: Reply | Completion, text: str, waited: float | None = None) -> None:
    """Describe the answer with this `text`, which began after `waited` seconds if it was streamed."""
    if not current.is_recording():
        return
    reason, error, calls = "stop", None, tuple[ToolCall, ...]()
    found: dict[str, Any] = {"gen_ai.response.time_to_first_chunk": waited}
    if isinstance(answer, Completion):
        reason = "length" if answer.truncated else "content_filter" if answer.refused else reason
    else:
        found["gen_ai.response.id"], calls = answer.response_id, answer.calls
        error = answer.error.code if answer.error else None
        reason = REASONS.get(error, "error") if error else "tool_calls" if calls else reason
    found |= {"gen_ai.response.model": answer.model, "gen_ai.response.finish_reasons": [reason]}
    if usage := answer.usage:
        found["gen_ai.usage.input_tokens"] = usage.input_tokens
        found["gen_ai.usage.output_tokens"] = usage.output_tokens
        found["gen_ai.usage.cache_read.input_tokens"] = usage.cached_tokens
    if CAPTURES:
        message = {"role": "assistant", "parts": _parts(text, calls), "finish_reason": reason}
        found["gen_ai.output.messages"] = json.dumps([message])
    current.set_attributes({name: value for name, value in found.items() if value not in (None, "")})
    if error and error not in REASONS:
        tracing.fail(current, error)


def _message(message: PromptMessage) -> Mapping[str, Any]:
    if message.role == "tool":
        output = {"type": "tool_call_response", "id": message.call_id, "response": message.content}
        return {"role": "tool", "parts": [output]}
    return {"role": message.role, "parts": _parts(message.content, message.calls)}


def _parts(text: str, calls: Sequence[ToolCall] = ()) -> list[dict[str, Any]]:
    """A text and calls of tools as OpenTelemetry writes them. Images and files are only the marks in the text."""
    asked = [{"type": "tool_call", "id": one.id, "name": one.name, "arguments": one.arguments} for one in calls]
    return ([{"type": "text", "content": text}] if text else []) + asked
