"""A reply in the format of Chat Completions, whole and in chunks, and the models that a client may name."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings

from chatmemory.llm.protocol import ToolCall, Variant
from conversations.models import Status
from conversations.openai_api.errors import ModelNotFound
from conversations.replies import events

MARK = "\x00text\x00"
"""Placeholder for a text in a chunk: nothing that a client sends contains a NUL."""
DONE = b"data: [DONE]\n\n"
_FINISH = {"too_long": "length", "refused": "content_filter"}
"""Our code for why a reply is incomplete → `finish_reason`. Any other code is an error."""


def completion_id(message_id: UUID) -> str:
    return f"chatcmpl-{message_id.hex}"


def finish_reason(status: str, error: Mapping[str, Any] | None) -> str | None:
    """Return the API's reason why a reply of that status ended; None if it broke off, which is an error in that API."""
    if status in (Status.COMPLETE, Status.CANCELLED, Status.DELETED):
        return "stop"
    return _FINISH.get((error or {}).get("code", "")) if status == Status.INCOMPLETE else None


def usage_json(usage: Mapping[str, Any] | None, prompt_tokens: int, tokens: int) -> dict[str, Any]:
    """Return the usage as the upstream billed it, or by our own count if it reported none."""
    cached = 0
    if usage is not None:
        prompt_tokens, cached, tokens = (usage[f"{kind}_tokens"] for kind in ("input", "cached", "output"))
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": tokens,
        "total_tokens": prompt_tokens + tokens,
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
    """`finish_reason`."""
    usage: Mapping[str, Any]
    calls: Sequence[ToolCall] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The fields that all parts of one answer have in common."""

    id: str
    created: int
    model: str
    """The model as the client named it."""
    with_usage: bool = False
    """Whether the client wants the usage at the end of a stream; then every chunk has a place for it."""

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
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": end.reason}
        return self._object("chat.completion", [choice]) | {"usage": dict(end.usage)}

    def text_chunks(self) -> Callable[[str], bytes]:
        """Return an encoder of text chunks. All of a chunk except its text is encoded once: an answer has hundreds."""
        before, _, after = self.chunk({"content": MARK}).partition(events.json_line(MARK))
        return lambda text: before + events.json_line(text) + after

    def last_chunks(self, end: Ended) -> bytes:
        """Return the last chunks including `[DONE]`: each tool call as one piece, and the usage if it is requested."""
        calls = (
            self.chunk({"tool_calls": [{"index": index, **call.chat_json}]}) for index, call in enumerate(end.calls)
        )
        usage = self._object("chat.completion.chunk", []) | {"usage": dict(end.usage)}
        last = events.unnamed(usage) if self.with_usage else b""
        return b"".join(calls) + self.chunk({}, end.reason) + last + DONE

    def chunk(self, delta: Mapping[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        body = self._object("chat.completion.chunk", [choice])
        return events.unnamed(body | {"usage": None} if self.with_usage else body)

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


MODEL_CHARS = 128
"""Length of the database column for a completion's model; a test compares them."""
ANY = "*"
"""The alias of all names that no model has."""
STARTED = int(time.time())
"""Start of this process, reported as the creation time of models, whose real one is unknown."""


def named_models() -> dict[str, Variant]:
    """Return the variants by all names that a client may use, in the order in which they are listed.

    A variant's own name comes before an alias, and an alias before the upstream's name of a model.
    """
    variants = settings.MODEL_VARIANTS
    upstream = {one.model: one for one in reversed(variants.values())}  # of two, the first
    aliases = {name: variants[to] for name, to in settings.OPENAI_MODEL_ALIASES.items() if name != ANY}
    return variants | upstream | aliases | variants


def variant_named(name: str) -> Variant:
    """Return the variant that `name` means. Raises `ModelNotFound`."""
    models = named_models()
    if name in models:
        return models[name]
    any_other = settings.OPENAI_MODEL_ALIASES.get(ANY)
    if any_other and 0 < len(name) <= MODEL_CHARS and name.isprintable():
        return models[any_other]
    raise ModelNotFound(name, models)


def model_object(name: str, created: int = STARTED) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "chatmemory",
        "shutdown_date": None,
    }
