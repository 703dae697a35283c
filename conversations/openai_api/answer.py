"""How a reply ended, its format in Chat Completions, whole and in chunks."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar
from uuid import UUID

from chatmemory.database.ids import new_id
from chatmemory.errors import ChatMemoryError
from chatmemory.llm.protocol import ToolCall, Usage
from conversations.models import Message, Status
from conversations.openai_api.errors import body_of
from conversations.replies import events

MARK = "\x00text\x00"
"""Placeholder for a text in a chunk: nothing that a client sends contains a NUL."""
DONE = b"data: [DONE]\n\n"
_FINISH = {"too_long": "length", "refused": "content_filter"}
"""Our code for why a reply is incomplete → `finish_reason`. Any other code is an error."""


def finish_reason(status: str, error: Mapping[str, Any] | None) -> str | None:
    """Return the API's reason why a reply of that status ended; None if it broke off, which is an error in that API."""
    if status in (Status.COMPLETE, Status.CANCELLED, Status.DELETED):
        return "stop"
    return _FINISH.get((error or {}).get("code", "")) if status == Status.INCOMPLETE else None


def usage_json(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


@dataclass(frozen=True, slots=True)
class Ended:
    """A reply that has ended."""

    text: str
    status: str
    usage: Usage
    """As the upstream billed it, or by our own count if it reported none."""
    calls: Sequence[ToolCall] = ()
    error: Mapping[str, Any] | None = None
    """The stored error, if it is not complete."""
    completed_at: datetime | None = None
    failure: ChatMemoryError | None = None
    """The error that the client gets if the reply broke off."""

    @classmethod
    def of(cls, message: Message, calls: Sequence[ToolCall], prompt_tokens: int) -> "Ended":
        """Return the end of a reply; `prompt_tokens` are by our own count."""
        usage = message.billed or Usage(prompt_tokens, 0, message.token_count)
        return cls(message.content, message.status, usage, calls, message.error, message.completed_at)

    @property
    def reason(self) -> str | None:
        """`finish_reason`; None if the reply broke off."""
        return "tool_calls" if self.calls else finish_reason(self.status, self.error)


@dataclass(frozen=True)
class CompletionFormat:
    """A reply in the format of Chat Completions: the fields that all its parts have in common."""

    kind: ClassVar = "completion"
    """Its name in errors."""

    model: str
    """The model as the client named it."""
    with_usage: bool = False
    """Whether the client wants the usage at the end of a stream; then every chunk has a place for it."""
    message_id: UUID = field(default_factory=new_id)
    """Id of the reply."""
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def id(self) -> str:
        return f"chatcmpl-{self.message_id.hex}"

    def whole(self, end: Ended) -> dict[str, Any]:
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
        return self._object("chat.completion", [choice]) | {"usage": usage_json(end.usage)}

    def first(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def text(self, piece: str) -> bytes:
        before, after = self._around_text
        return before + events.json_line(piece) + after

    def last(self, end: Ended) -> bytes:
        """Return the last chunks including `[DONE]`: each tool call as one piece, and the usage if it is requested."""
        if end.failure is not None:
            return self.failed(end.failure)
        calls = (
            self._chunk({"tool_calls": [{"index": index, **call.chat_json}]}) for index, call in enumerate(end.calls)
        )
        usage = self._object("chat.completion.chunk", []) | {"usage": usage_json(end.usage)}
        last = events.unnamed(usage) if self.with_usage else b""
        return b"".join(calls) + self._chunk({}, end.reason) + last + DONE

    def failed(self, error: ChatMemoryError) -> bytes:
        return events.unnamed(body_of(error)) + DONE

    @cached_property
    def _around_text(self) -> tuple[bytes, bytes]:
        """A chunk without its text, encoded once: an answer has hundreds."""
        before, _, after = self._chunk({"content": MARK}).partition(events.json_line(MARK))
        return before, after

    def _chunk(self, delta: Mapping[str, Any], reason: str | None = None) -> bytes:
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
