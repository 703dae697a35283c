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

from chatmemory.database.ids import new_id
from chatmemory.errors import ChatMemoryError
from chatmemory.llm.openai.requests import tool_item
from conversations.models import Status
from conversations.openai_api.answer import DONE, MARK, Ended, finish_reason
from conversations.openai_api.errors import body_of
from conversations.replies import events

TEXT_AT = 3
"""Number of the event before the first piece of text."""
ENDS_OF_TEXT = 3
"""Number of events between the last piece of text and what follows; left out without a text, but counted."""
RESPONSE_ID = re.compile("resp_[0-9a-f]{32}")
"""The id of a response: that of its reply, with a prefix."""
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

    model: str
    """The model as the client named it."""
    shown: Mapping[str, Any]
    """The fields of the request that it repeats."""
    instructions: str = ""
    tools: Sequence[Mapping[str, Any]] = ()
    """In the format of Chat Completions."""
    is_stored: bool = True
    message_id: UUID = field(default_factory=new_id)
    """Id of the reply."""
    after: int = -1
    sent: int = field(init=False)
    """Code points of the text that the client has."""

    def __post_init__(self) -> None:
        self.sent = max(0, self.after - TEXT_AT)

    @property
    def id(self) -> str:
        return f"resp_{self.message_id.hex}"

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
        """Return the items of the output: the message, and each call after its thoughts."""
        status, reply = "completed" if _status(end) == "completed" else "incomplete", self.message_id.hex
        items = [self._message(status, _text_part(end.text))] if end.text else []
        for index, call in enumerate(end.calls):
            items += [{"id": f"rs_{reply}_{index}_{at}"} | one for at, one in enumerate(call.reasoning)]
            kind, name = ("custom_tool_call", "input") if call.is_custom else ("function_call", "arguments")
            items.append(
                {
                    "id": f"{'ctc' if call.is_custom else 'fc'}_{reply}_{index}",
                    "type": kind,
                    "call_id": call.id,
                    "name": call.name,
                    name: call.arguments,
                    **call.namespace,
                    "status": "completed",
                }
            )
        return items

    def _message(self, status: str, *content: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": f"msg_{self.message_id.hex}",
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": list(content),
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
        status = _status(end)
        # What a crash lost of a response that failed may have been read: then its end comes after that.
        number = TEXT_AT + (max(len(end.text), self.sent) if status == "failed" else len(end.text))
        number += 1 if end.text else 1 + ENDS_OF_TEXT
        done = b""
        for place, item in enumerate(self.output(end)):
            for name, data in _item_events(item, place):
                done += self._event(number, name, data)
                number += 1
        if status == "failed" and end.failure is not None:
            done += self._error(number, end.failure)
        name = "incomplete" if status == "cancelled" else status  # no event of the API says cancelled
        return done + self._event(number + 1, f"response.{name}", {"response": self.whole(end)}) + DONE

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
        item, part = self._message("in_progress"), _text_part("")
        return self._event(2, "response.output_item.added", {"output_index": 0, "item": item}) + self._event(
            3, "response.content_part.added", self._of_text() | {"part": part}
        )

    def _of_text(self) -> dict[str, Any]:
        return {"item_id": f"msg_{self.message_id.hex}", "output_index": 0, "content_index": 0}

    def _error(self, number: int, error: ChatMemoryError) -> bytes:
        """Some clients read an error's fields from the event itself, others from its `error`."""
        told = body_of(error)["error"]
        flat = {"code": told["code"], "message": told["message"], "param": told["param"]}
        return self._event(number, "error", flat | {"error": told})

    def _event(self, number: int, name: str, data: Mapping[str, Any]) -> bytes:
        if number <= self.after:
            return b""
        return events.event(name, {"type": name, "sequence_number": number, **data})


def _item_events(item: dict[str, Any], place: int) -> list[tuple[str, dict[str, Any]]]:
    """Return the events of an item of the output; of the message, those that follow its text."""
    index, of_item = {"output_index": place}, {"item_id": item["id"], "output_index": place}
    done = "response.output_item.done", index | {"item": item}
    if item["type"] == "message":
        of_text, part = of_item | {"content_index": 0}, item["content"][0]
        return [
            ("response.output_text.done", of_text | {"text": part["text"], "logprobs": []}),
            ("response.content_part.done", of_text | {"part": part}),
            done,
        ]
    if item["type"] == "reasoning":
        return [("response.output_item.added", index | {"item": item}), done]
    is_custom = item["type"] == "custom_tool_call"
    kind, name = ("custom_tool_call_input", "input") if is_custom else ("function_call_arguments", "arguments")
    return [
        ("response.output_item.added", index | {"item": item | {name: "", "status": "in_progress"}}),
        (f"response.{kind}.delta", of_item | {"delta": item[name]}),
        (f"response.{kind}.done", of_item | {"name": item["name"], name: item[name]}),
        done,
    ]


def _text_part(text: str) -> dict[str, Any]:
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
