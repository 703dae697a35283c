"""A reply in the format of Chat Completions, whole and in chunks, and the models that a client may name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from chatmemory.llm.protocol import ToolCall, Variant
from conversations.models import Status
from conversations.openai_api.errors import ModelNotFound
from conversations.replies import sse

PREFIX = "chatcmpl-"
MARK = "\x00text\x00"
"""Placeholder for a text in a chunk: nothing that a client sends contains a NUL."""
DONE = b"data: [DONE]\n\n"
CALLED = "tool_calls"
"""`finish_reason` of a reply that calls tools."""
_FINISH = {"too_long": "length", "refused": "content_filter"}
"""Our code for why a reply is incomplete → `finish_reason`. Any other code is an error."""


def completion_id(message_id: UUID) -> str:
    return f"{PREFIX}{message_id.hex}"


def finish_reason(status: str, error: Mapping[str, Any] | None) -> str | None:
    """Return the API's reason why a reply of that status ended; None if it broke off, which is an error in that API."""
    if status in (Status.COMPLETE, Status.CANCELLED, Status.DELETED):
        return "stop"
    return _FINISH.get((error or {}).get("code", "")) if status == Status.INCOMPLETE else None


def usage_json(usage: Mapping[str, Any] | None, prompt_tokens: int, tokens: int) -> dict[str, Any]:
    """Return the usage as the upstream billed it, or by our own count if it reported none."""
    if usage is None:
        return _usage(prompt_tokens, 0, tokens)
    return _usage(usage["input_tokens"], usage["cached_tokens"], usage["output_tokens"])


def _usage(spent: int, cached: int, said: int) -> dict[str, Any]:
    return {
        "prompt_tokens": spent,
        "completion_tokens": said,
        "total_tokens": spent + said,
        "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


@dataclass(frozen=True, slots=True)
class Ended:
    """A reply that has ended as the API knows it."""

    text: str
    reason: str
    """As `finish_reason` returns it."""
    usage: Mapping[str, Any]
    calls: Sequence[ToolCall] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The fields that all parts of one answer have in common."""

    id: str
    created: int
    model: str
    """The model as the client named it."""

    def completion(self, end: Ended) -> dict[str, Any]:
        """Return the completion as one object."""
        message: dict[str, Any] = {
            "role": "assistant",
            "content": (end.text or None) if end.calls else end.text,
            "refusal": None,
            "annotations": [],
        }
        if end.calls:
            message["tool_calls"] = [call.chat_json for call in end.calls]
        reason = CALLED if end.calls else end.reason
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        return self._object("chat.completion", [choice]) | {"usage": dict(end.usage)}

    def first_chunk(self, *, with_usage: bool) -> bytes:
        return self._chunk({"role": "assistant", "content": ""}, None, with_usage)

    def text_chunks(self, *, with_usage: bool) -> Callable[[str], bytes]:
        """Return an encoder of text chunks. All of a chunk except its text is encoded once: an answer has hundreds."""
        before, _, after = self._chunk({"content": MARK}, None, with_usage).partition(sse.json_text(MARK))
        return lambda text: before + sse.json_text(text) + after

    def last_chunks(self, end: Ended, *, with_usage: bool) -> bytes:
        """Return the last chunks including `[DONE]`: each tool call as one piece, and the usage if it is requested."""
        last = b"".join(
            self._chunk({"tool_calls": [{"index": index, **call.chat_json}]}, None, with_usage)
            for index, call in enumerate(end.calls)
        )
        last += self._chunk({}, CALLED if end.calls else end.reason, with_usage)
        if with_usage:
            last += sse.data(self._object("chat.completion.chunk", []) | {"usage": dict(end.usage)})
        return last + DONE

    def _chunk(self, delta: Mapping[str, Any], reason: str | None, with_usage: bool) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        body = self._object("chat.completion.chunk", [choice])
        return sse.data(body | {"usage": None} if with_usage else body)

    def _object(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "service_tier": "default",
            "system_fingerprint": None,
            "choices": choices,
        }


def error_end(error: Mapping[str, Any]) -> bytes:
    """Return the end of a stream that broke off: an error in OpenAI's format, and no `finish_reason`."""
    return sse.data(error) + DONE


def unix(moment: datetime) -> int:
    return int(moment.timestamp())


ANY = "*"


def variant_named(name: str, variants: Mapping[str, Variant], aliases: Mapping[str, str]) -> Variant:
    """Return the variant that `name` means. Raises `ModelNotFound`."""
    if name in variants:
        return variants[name]
    if name in aliases:
        return variants[aliases[name]]
    for variant in variants.values():
        if variant.model == name:
            return variant
    if ANY in aliases:
        return variants[aliases[ANY]]
    raise ModelNotFound(name, model_names(variants, aliases))


def model_names(variants: Mapping[str, Variant], aliases: Mapping[str, str]) -> list[str]:
    """Return all names of models, each once: variants first, then upstream names and aliases."""
    names = [*variants, *(one.model for one in variants.values()), *(name for name in aliases if name != ANY)]
    return list(dict.fromkeys(names))


def model_objects(
    variants: Mapping[str, Variant], aliases: Mapping[str, str], created: int
) -> list[dict[str, Any]]:
    """Return all models as OpenAI lists them."""
    return [model_object(name, created) for name in model_names(variants, aliases)]


def model_object(name: str, created: int) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "chatmemory",
        "shutdown_date": None,
    }
