"""A reply as a response object, whole and as events.

Each event has a `sequence_number` that any process can compute from the stored reply: the text begins at 3, and each
of its pieces has the number of code points up to its end on top of that. So a stream can be resumed after any number.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar
from uuid import UUID

from chatmemory.errors import ChatMemoryError
from chatmemory.llm.openai.requests import tool_item
from chatmemory.llm.protocol import ToolCall
from conversations.models import Status
from conversations.openai_api.answer import DONE, MARK, Ended, finish_reason
from conversations.openai_api.errors import body_of
from conversations.openai_api.response_request import response_id
from conversations.replies import events

TEXT_AT = 3
"""Number of the event before the first piece of text."""
ITEM_ID = re.compile("(?:msg|fc|ctc|fco)_([0-9a-f]{32})(?:_([0-9]{1,3}))?")
"""The id of a message and, for a call that it makes, the number of the call."""
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_DEFAULTS: Mapping[str, Any] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "top_logprobs": 0,
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "truncation": "disabled",
    "metadata": {},
    "max_output_tokens": None,
    "max_tool_calls": None,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "safety_identifier": None,
    "service_tier": "default",
    "user": None,
    "background": False,
}
"""Fields that repeat what was requested, as they are if it was not."""


@dataclass
class ResponseFormat:
    """A reply as a response object, or as the events after a number."""

    kind: ClassVar = "response"

    message_id: UUID
    """Id of the reply."""
    model: str
    """The model as the client named it."""
    shown: Mapping[str, Any]
    """What is repeated of the request."""
    instructions: str = ""
    tools: Sequence[Mapping[str, Any]] = ()
    """In the format of Chat Completions."""
    is_stored: bool = True
    after: int = -1
    sent: int = field(init=False)
    """Code points of the text that the client has."""

    def __post_init__(self) -> None:
        self.sent = max(0, self.after - TEXT_AT)

    @property
    def id(self) -> str:
        return response_id(self.message_id)

    def whole(self, end: Ended | None) -> dict[str, Any]:
        """Return the response object; None: it is in progress."""
        given, status = self.shown, _status(end)
        named = given.get("conversation") or None
        reason = _INCOMPLETE.get((end and end.reason) or "") if status == "incomplete" else None
        completed_at = end.completed_at if end and status == "completed" else None
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.message_id.int // 2**80 // 1000,  # a UUIDv7 begins with its milliseconds
            "completed_at": completed_at and int(completed_at.timestamp()),
            "status": status,
            "incomplete_details": reason and {"reason": reason},
            "error": _error(end) if end and status == "failed" else None,
            "model": self.model,
            "instructions": self.instructions or None,
            "output": self.output(end) if end else [],
            "usage": _usage(end) if end else None,
            **_DEFAULTS,
            **given,
            # Only if it was named, as OpenAI does: clients go on by it instead of the response's id.
            "conversation": named and (named if isinstance(named, dict) else {"id": named}),
            "store": self.is_stored and given.get("store", True),
            "text": {"format": {"type": "text"}, "verbosity": "medium"} | given.get("text", {}),
            "reasoning": {"effort": None, "summary": None} | given.get("reasoning", {}),
            "tools": [{"description": None, "parameters": None} | tool_item(tool) for tool in self.tools],
        }

    def output(self, end: Ended) -> list[dict[str, Any]]:
        """Return the items of the output."""
        status = "completed" if _status(end) == "completed" else "incomplete"
        items = [self.message(end.text, status)] if end.text else []
        for index, call in enumerate(end.calls):
            items += [*self.reasoning(index, call), self.call(index, call, "completed")]
        return items

    def message(self, text: str | None, status: str) -> dict[str, Any]:
        """Return the item of the message; None: its text begins."""
        content = [] if text is None else [text_part(text)]
        return {
            "id": f"msg_{self.message_id.hex}",
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": content,
        }

    def reasoning(self, index: int, call: ToolCall) -> list[dict[str, Any]]:
        """Return the items of the thoughts before a call."""
        return [{"id": f"rs_{self.message_id.hex}_{index}_{at}"} | one for at, one in enumerate(call.reasoning)]

    def call(self, index: int, call: ToolCall, status: str, arguments: str | None = None) -> dict[str, Any]:
        """Return the item of a call; `arguments`: as far as they are known."""
        kind, name = ("custom_tool_call", "input") if call.is_custom else ("function_call", "arguments")
        return {
            "id": f"{'ctc' if call.is_custom else 'fc'}_{self.message_id.hex}_{index}",
            "type": kind,
            "call_id": call.id,
            "name": call.name,
            name: call.arguments if arguments is None else arguments,
            **call.namespace,
            "status": status,
        }

    def first(self) -> bytes:
        body = {"response": self.whole(None)}
        return self._event(0, "response.created", body) + self._event(1, "response.in_progress", body)

    def text(self, piece: str) -> bytes:
        begins = b"" if self.sent else self._text_begins()
        self.sent += len(piece)
        before, between, after = self._around_text
        return begins + before + b"%d" % (TEXT_AT + self.sent) + between + events.json_line(piece) + after

    def last(self, end: Ended) -> bytes:
        done, items, status = b"", self.output(end), _status(end)
        # What a crash lost of a response that failed may have been read: then its end comes after that.
        number = TEXT_AT + (max(len(end.text), self.sent) if status == "failed" else len(end.text))
        if end.text:
            part = text_part(end.text)
            done += self._event(
                number + 1, "response.output_text.done", self._of_text() | {"text": end.text, "logprobs": []}
            )
            done += self._event(number + 2, "response.content_part.done", self._of_text() | {"part": part})
            done += self._event(number + 3, "response.output_item.done", {"output_index": 0, "item": items[0]})
        number, place = number + 3, int(bool(end.text))
        for index, call in enumerate(end.calls):
            for item in self.reasoning(index, call):
                for event in ("response.output_item.added", "response.output_item.done"):
                    number += 1
                    done += self._event(number, event, {"output_index": place, "item": item})
                place += 1
            done += self._call(number, index, call, output_index=place)
            number, place = number + 4, place + 1
        if status == "failed" and end.failure is not None:
            done += self._error(number + 1, end.failure)
        name = "incomplete" if status == "cancelled" else status  # no event of the API says cancelled
        return done + self._event(number + 2, f"response.{name}", {"response": self.whole(end)}) + DONE

    def failed(self, error: ChatMemoryError) -> bytes:
        """Return the end of a stream whose response may still be completed."""
        return self._error(TEXT_AT + self.sent + 1, error) + DONE

    @cached_property
    def _around_text(self) -> tuple[bytes, ...]:
        """A delta without its number and its text, encoded once: an answer has hundreds."""
        name = "response.output_text.delta"
        data = {"type": name, "sequence_number": MARK, **self._of_text(), "delta": MARK, "logprobs": []}
        return tuple(events.event(name, data).split(events.json_line(MARK)))

    def _text_begins(self) -> bytes:
        item, part = self.message(None, "in_progress"), text_part("")
        return self._event(2, "response.output_item.added", {"output_index": 0, "item": item}) + self._event(
            3, "response.content_part.added", self._of_text() | {"part": part}
        )

    def _of_text(self) -> dict[str, Any]:
        return {"item_id": f"msg_{self.message_id.hex}", "output_index": 0, "content_index": 0}

    def _call(self, number: int, index: int, call: ToolCall, *, output_index: int) -> bytes:
        begun, whole = self.call(index, call, "in_progress", ""), self.call(index, call, "completed")
        kind, name = ("custom_tool_call_input", "input") if call.is_custom else ("function_call_arguments", "arguments")
        of_item, place = {"item_id": whole["id"], "output_index": output_index}, {"output_index": output_index}
        return b"".join(
            self._event(number + at, event, data)
            for at, (event, data) in enumerate(
                [
                    ("response.output_item.added", place | {"item": begun}),
                    (f"response.{kind}.delta", of_item | {"delta": call.arguments}),
                    (f"response.{kind}.done", of_item | {"name": call.name, name: call.arguments}),
                    ("response.output_item.done", place | {"item": whole}),
                ],
                start=1,
            )
        )

    def _error(self, number: int, error: ChatMemoryError) -> bytes:
        """Some clients read an error's fields from the event itself, others from its `error`."""
        told = body_of(error)["error"]
        flat = {"code": told["code"], "message": told["message"], "param": told["param"]}
        return self._event(number, "error", flat | {"error": told})

    def _event(self, number: int, name: str, data: Mapping[str, Any]) -> bytes:
        if number <= self.after:
            return b""
        return events.event(name, {"type": name, "sequence_number": number, **data})


def text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _status(end: Ended | None) -> str:
    if end is None:
        return "in_progress"
    if end.status == Status.CANCELLED:
        return "cancelled"
    if end.status == Status.INCOMPLETE:
        return "failed" if finish_reason(end.status, end.error) is None else "incomplete"
    return "failed" if end.status == Status.FAILED else "completed"


def _error(end: Ended) -> dict[str, str]:
    stored = end.error or {}
    code = "invalid_prompt" if stored.get("code") == "context_length_exceeded" else "server_error"
    return {"code": code, "message": stored.get("message") or "The model ended without an answer."}


def _usage(end: Ended) -> dict[str, Any]:
    return {
        "input_tokens": end.usage.input_tokens,
        "input_tokens_details": {"cached_tokens": end.usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": end.usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": end.usage.total,
    }
