"""What an OpenAI-compatible server writes, in both API styles: events of a stream and whole answers. Pure.

Shapes follow the public API, including sequence numbers, obfuscation and null fields, so that sizes are realistic.
"""

import json
from dataclasses import dataclass, field
from typing import Any

DONE = b"data: [DONE]\n\n"
CREATED = 1_760_000_000
CALL_CUT = 7
"""Characters of a tool call's arguments in one event."""


@dataclass(frozen=True)
class End:
    """How an answer ends: `complete`, `incomplete` (a reason), `failed` (a code), or `unsaid` (no marker)."""

    kind: str = "complete"
    reason: str = ""
    message: str = "sk-leak is secret, and so is what the user said"


@dataclass(frozen=True)
class Call:
    """A tool call: its function's name and its arguments as JSON text."""

    name: str
    arguments: str
    is_alone: bool = False
    """There is no text beside it."""
    id: str = "call_1"
    is_custom: bool = False
    """The call of a custom tool, whose arguments are any text."""
    extra: dict[str, Any] = field(default_factory=dict)
    """`extra_content` of a chunk, in Chat Completions."""
    thoughts: str = ""
    """What the Responses API sends before the call as encrypted reasoning."""

    def pieces(self) -> list[str]:
        """Return the arguments in the pieces in which they are streamed."""
        return [self.arguments[at : at + CALL_CUT] for at in range(0, len(self.arguments), CALL_CUT)]


@dataclass
class Speech:
    """One answer in one style; it knows its ids and counts its events."""

    style: str
    model: str
    answer_id: str
    usage: dict[str, int] = field(default_factory=dict)
    include_usage: bool = True
    calls: tuple[Call, ...] = ()
    """The tools that are called after the text."""
    _sequence: int = 0

    @property
    def is_silent(self) -> bool:
        """True if the answer calls a tool without any text."""
        return any(call.is_alone for call in self.calls)

    def opening(self) -> list[bytes]:
        """Return the events before the first text."""
        if self.style == "chat":
            return [self._chunk({"role": "assistant", "content": "", "refusal": None})]
        item = {"id": "msg_1", "type": "message", "status": "in_progress", "content": [], "role": "assistant"}
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
        where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        begun = [
            self._event("response.created", response=self.response("", End("in_progress"))),
            self._event("response.in_progress", response=self.response("", End("in_progress"))),
        ]
        if self.is_silent:
            return begun
        return [
            *begun,
            self._event("response.output_item.added", output_index=0, item=item),
            self._event("response.content_part.added", part=part, **where),
        ]

    def delta(self, text: str) -> bytes:
        """Return the event of one piece of text."""
        if self.style == "chat":
            return self._chunk({"content": text})
        self._sequence += 1
        return (
            b"event: response.output_text.delta\n"
            b'data: {"type":"response.output_text.delta","sequence_number":%d,'
            b'"item_id":"msg_1","output_index":0,"content_index":0,"delta":%b,"logprobs":[],"obfuscation":"x7Qk2"}\n\n'
            % (self._sequence, json.dumps(text).encode())
        )

    def refusal(self, text: str) -> bytes:
        """Return the event of one piece of a refusal."""
        if self.style == "chat":
            return self._chunk({"refusal": text})
        return self._event("response.refusal.delta", item_id="msg_1", output_index=0, content_index=0, delta=text)

    def calling(self) -> list[bytes]:
        """Return the events of the tool calls, piece by piece; none if there are no calls."""
        calling = self._chat_calling if self.style == "chat" else self._calling
        return [event for at, call in enumerate(self.calls) for event in calling(at, call)]

    def closing(self, text: str, end: End, *, refused: bool = False) -> list[bytes]:
        """Return the events after the last text, including the terminal marker."""
        return self._chat_closing(end) if self.style == "chat" else self._closing(text, end, refused)

    def error(self, end: End) -> bytes:
        """Return an error in the middle of a stream: an `error` event, or in chat style an error line."""
        if self.style == "chat":
            return self.error_line(end)
        return self._event("error", code=end.reason or "server_error", message=end.message, param=None)

    def error_line(self, end: End) -> bytes:
        """Return `data: {"error": …}`, which gateways write in either style."""
        return b"data: " + json.dumps({"error": error_object(end)}).encode() + b"\n\n"

    def whole(self, text: str, end: End, *, refused: bool = False) -> dict[str, Any]:
        """Return the answer of a call that does not stream."""
        answer = self._completion if self.style == "chat" else self.response
        return answer(text, end, refused)

    def response(self, text: str, end: End, refused: bool = False) -> dict[str, Any]:
        """Return a Responses object."""
        part = {"type": "refusal", "refusal": text} if refused else {"type": "output_text", "text": text}
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
        in_progress = end.kind == "in_progress"
        items: list[dict[str, Any]] = [{"id": "rs_1", "type": "reasoning", "summary": []}]
        items += [] if self.is_silent else [message]
        if end.kind == "complete":
            for at, call in enumerate(self.calls):
                items += [*reasoning(at, call), call_item(at, call, call.arguments, "completed")]
        return {
            "id": self.answer_id,
            "object": "response",
            "created_at": CREATED,
            "status": {"complete": "completed"}.get(end.kind, end.kind),
            "error": error_object(end) if end.kind == "failed" else None,
            "incomplete_details": {"reason": end.reason} if end.kind == "incomplete" else None,
            "model": self.model,
            "output": [] if in_progress else items,
            "usage": None if in_progress else self._usage(),
        }

    def _calling(self, at: int, call: Call) -> list[bytes]:
        index = at if self.is_silent else at + 1
        where = {"item_id": f"fc_{at + 1}", "output_index": index}
        said = "input" if call.is_custom else "arguments"
        event = f"response.{'custom_tool_call_input' if call.is_custom else 'function_call_arguments'}"
        pieces = [self._event(f"{event}.delta", delta=piece, **where) for piece in call.pieces()]
        done = call_item(at, call, call.arguments, "completed")
        return [
            *[self._event("response.output_item.done", output_index=index, item=item) for item in reasoning(at, call)],
            self._event("response.output_item.added", output_index=index, item=call_item(at, call, "", "in_progress")),
            *pieces,
            self._event(f"{event}.done", **{said: call.arguments}, **where),
            self._event("response.output_item.done", output_index=index, item=done),
        ]

    def _chat_calling(self, at: int, call: Call) -> list[bytes]:
        kind, said = ("custom", "input") if call.is_custom else ("function", "arguments")
        head: dict[str, Any] = {"index": at, "id": call.id, "type": kind, kind: {"name": call.name, said: ""}}
        if call.extra:
            head["extra_content"] = call.extra
        pieces = [{"index": at, kind: {said: piece}} for piece in call.pieces()]
        return [self._chunk({"tool_calls": [part]}) for part in (head, *pieces)]

    def _closing(self, text: str, end: End, refused: bool) -> list[bytes]:
        where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        done = [] if self.is_silent else [self._event("response.output_text.done", text=text, **where)]
        if end.kind == "unsaid":
            return [*done, DONE]
        kind = {"complete": "completed"}.get(end.kind, end.kind)
        return [*done, self._event(f"response.{kind}", response=self.response(text, end, refused))]

    def _chat_closing(self, end: End) -> list[bytes]:
        if end.kind == "unsaid":
            return [DONE]
        if end.kind == "failed":
            return [self.error_line(end)]
        usage = [self._chunk(None, usage=self._usage())] if self.include_usage else []
        return [self._chunk({}, finish=self._finish(end)), *usage, DONE]

    def _completion(self, text: str, end: End, refused: bool) -> dict[str, Any]:
        if end.kind == "failed":
            return {"error": error_object(end)}
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None if refused else text,
            "refusal": text if refused else None,
        }
        finish = None if end.kind == "unsaid" else self._finish(end)
        return {
            "id": self.answer_id,
            "object": "chat.completion",
            "created": CREATED,
            "model": self.model,
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
            "usage": self._usage(),
        }

    def _finish(self, end: End) -> str:
        return "tool_calls" if self.calls and end.kind == "complete" else finish_reason(end)

    def _event(self, kind: str, **fields: Any) -> bytes:
        self._sequence += 1
        data = json.dumps({"type": kind, "sequence_number": self._sequence, **fields})
        return f"event: {kind}\ndata: {data}\n\n".encode()

    def _chunk(
        self, delta: dict[str, Any] | None, *, finish: str | None = None, usage: dict[str, Any] | None = None
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        chunk = {
            "id": self.answer_id,
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": self.model,
            "system_fingerprint": "fp_fake",
            "choices": [] if delta is None else [choice],
            "usage": usage,
        }
        return b"data: " + json.dumps(chunk).encode() + b"\n\n"

    def _usage(self) -> dict[str, Any]:
        sent, written = ("prompt", "completion") if self.style == "chat" else ("input", "output")
        counts = [self.usage.get(name, 0) for name in ("input", "cached", "output")]
        return {
            f"{sent}_tokens": counts[0],
            f"{sent}_tokens_details": {"cached_tokens": counts[1]},
            f"{written}_tokens": counts[2],
            f"{written}_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": counts[0] + counts[2],
        }


def reasoning(at: int, call: Call) -> list[dict[str, Any]]:
    """Return the item with the thoughts before the call with index `at`."""
    item = {"id": f"rs_{at + 2}", "type": "reasoning", "summary": [], "encrypted_content": call.thoughts}
    return [item] if call.thoughts else []


def call_item(at: int, call: Call, arguments: str, status: str) -> dict[str, Any]:
    """Return the tool call with index `at` as an item of a Responses object."""
    return {
        "id": f"fc_{at + 1}",
        "type": "custom_tool_call" if call.is_custom else "function_call",
        "status": status,
        "call_id": call.id,
        "name": call.name,
        "input" if call.is_custom else "arguments": arguments,
        **call.extra,
    }


def error_object(end: End) -> dict[str, Any]:
    """Return an error object as servers write it."""
    return {
        "message": end.message,
        "type": "server_error",
        "param": None,
        "code": end.reason or "server_error",
    }


def finish_reason(end: End) -> str:
    """Return the chat style's finish reason for an ending."""
    if end.kind == "complete":
        return "stop"
    return {"max_output_tokens": "length"}.get(end.reason, end.reason)
