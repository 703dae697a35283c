"""Push parsers for an upstream's event stream, one per API style: they return text, tool calls and the outcome.

Pure: bytes are pushed in as they arrive, cut anywhere; nothing is ever raised. A stream is complete only when the
upstream's own terminal marker is complete, including the blank line after it. Anything after the outcome is ignored,
and anything malformed ends the stream as incomplete, because guessing could hide missing text. The length of one
event is limited, because it is held in memory. A malformed tool call does not end a reply.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

from chatmemory.llm.openai import failures, responses
from chatmemory.llm.openai.call_reader import CUSTOM, MAX_CHARS, CallReader
from chatmemory.llm.openai.responses import MalformedError, UpstreamEnding
from chatmemory.llm.protocol import ReplyError, Usage

Style = Literal["responses", "chat"]
Terminal = Literal["strict", "done"]


class StreamParser(ABC):
    """Feed it bytes, get text. `ending` is the upstream's outcome once it has arrived; `close` returns the final one.

    `terminal="done"` also accepts `[DONE]` as a terminal marker, for servers that leave `finish_reason` null on
    complete answers. It is not the default, because proxies send `[DONE]` after a cut, too.
    """

    def __init__(
        self,
        *,
        terminal: Terminal = "strict",
        max_event_bytes: int = 16 * 1024 * 1024,
        max_call_chars: int = MAX_CHARS,
    ) -> None:
        self.ending: UpstreamEnding | None = None
        self.is_over = False
        """Whether nothing that may still arrive can change text, outcome or usage."""
        self.usage: Usage | None = None
        self.model = ""
        self.response_id = ""
        self.calls = CallReader(max_call_chars)
        self._terminal = terminal
        self._max_event_bytes = max_event_bytes
        self._unended = bytearray()
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._has_events = False
        self._has_text = False
        self._refused = False

    def feed(self, chunk: bytes) -> str:
        """Return the text of the events that `chunk` completes, uncleaned, in order."""
        if self.is_over:
            return ""
        ended, newline, rest = chunk.rpartition(b"\n")
        if newline:
            ended, self._unended = bytes(self._unended) + ended, bytearray(rest)
            text = "".join([said for line in ended.split(b"\n") if (said := self._line(line))])
        else:
            self._unended += rest
            text = ""
        if len(self._unended) + self._data_bytes > self._max_event_bytes:
            self._end(failures.TOO_LONG)
        return text

    def close(self) -> UpstreamEnding:
        """Return the outcome when no more bytes arrive. An event without its blank line does not count."""
        if self.ending:
            return self.ending
        return UpstreamEnding(failures.BROKE_OFF if self._has_events else failures.INVALID_RESPONSE)

    def _line(self, line: bytes) -> str:
        if line.startswith(b"data:"):
            self._data.append(line[5:])
            self._data_bytes += len(line)
            return ""
        if not self._data or self.is_over or line.rstrip(b"\r"):
            return ""
        data, self._data, self._data_bytes = b"\n".join(self._data).strip(), [], 0
        return self._dispatch(data)

    def _dispatch(self, data: bytes) -> str:
        if data == b"[DONE]":
            self._done()
            return ""
        try:
            event = responses.load_object(data)
            self._has_events = True
            return self._read(event)
        except MalformedError:
            self._end(failures.INVALID_RESPONSE)
            return ""

    @abstractmethod
    def _read(self, event: dict[str, Any]) -> str:
        """Return the text of one event, and set the outcome if the event has one. Raise `MalformedError`."""

    def _done(self) -> None:
        if self._terminal == "done" and not self.ending:
            self.ending = UpstreamEnding(failures.REFUSED if self._refused else None)
        self.is_over = True

    def _end(self, error: ReplyError) -> None:
        self.ending = self.ending or UpstreamEnding(error)
        self.is_over = True
        self._unended.clear()
        self._data.clear()


class ResponsesParser(StreamParser):
    """Parses events of the Responses API. Its markers: `response.completed`, `.incomplete`, `.failed`, `error`."""

    _ENDS = ("response.completed", "response.incomplete", "response.failed")
    _ARGUMENTS = (
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.custom_tool_call_input.delta",
        "response.custom_tool_call_input.done",
    )
    _CALLS = ("response.output_item.added", "response.output_item.done", *_ARGUMENTS)

    def _read(self, event: dict[str, Any]) -> str:
        kind = event.get("type")
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            self._has_text = True
            self._refused = self._refused or kind == "response.refusal.delta"
            return responses.text_in(event.get("delta"))
        if kind in self._ENDS:
            return self._finish(kind, responses.object_in(event.get("response")))
        if kind in self._CALLS:
            self._called(kind, event)
        if kind == "error" or event.get("error"):
            self._end(failures.from_report(event.get("error") or event))
        elif kind == "response.created":
            self._name(responses.object_in(event.get("response")))
        return ""

    def _finish(self, kind: str, response: dict[str, Any]) -> str:
        text, refused = responses.text_and_refusal(response)
        self._name(response)
        self.usage = responses.usage_in(response.get("usage"))
        self.calls.replace_all(responses.calls_in(response))
        response = {**response, "status": kind.removeprefix("response.")}
        self.ending = responses.responses_ending(response, refused=self._refused or refused)
        self.is_over = True
        return "" if self._has_text else text  # some servers send no deltas, only the whole text at the end

    def _called(self, kind: str, event: dict[str, Any]) -> None:
        item = event.get("item")
        if isinstance(item, dict) and item.get("type") in responses.CALLS:
            is_custom = item["type"] == CUSTOM
            if kind == "response.output_item.added" or self.calls.is_new(item.get("call_id")):
                self.calls.begin(item.get("call_id"), item.get("name"), is_custom=is_custom)
            self.calls.replace(item.get("input" if is_custom else "arguments"))
        elif kind in self._ARGUMENTS:
            self.calls.add(event.get("delta"))
            self.calls.replace(event.get("input" if "custom" in kind else "arguments"))

    def _name(self, response: dict[str, Any]) -> None:
        self.model = responses.model_in(response.get("model")) or self.model
        self.response_id = responses.id_in(response.get("id")) or self.response_id


class ChatParser(StreamParser):
    """Parses chunks of Chat Completions. Its marker is a `finish_reason`. Usage follows, so it is over at `[DONE]`."""

    def _read(self, event: dict[str, Any]) -> str:
        if event.get("error"):
            self._end(failures.from_report(event["error"]))
            return ""
        self.usage = responses.usage_in(event.get("usage")) or self.usage
        self.model = self.model or responses.model_in(event.get("model"))
        self.response_id = self.response_id or responses.id_in(event.get("id"))
        choices = responses.objects_in(event.get("choices"))
        return self._choice(choices[0]) if choices else ""

    def _choice(self, choice: dict[str, Any]) -> str:
        delta = responses.object_in(choice.get("delta"))
        refusal = responses.text_in(delta.get("refusal"))
        text = responses.text_in(delta.get("content")) + refusal
        self._refused = self._refused or bool(refusal)
        for part in (parts := responses.objects_in(delta.get("tool_calls"))):
            self.calls.add_chat_part(part)
        if text or parts:
            self.ending = None  # some servers send a reason in every chunk: it counts only if nothing follows
        if reason := responses.text_in(choice.get("finish_reason")):
            self.ending = responses.chat_ending(reason, refused=self._refused)
        return text


def parser_for(
    style: Style, *, terminal: Terminal, max_event_bytes: int, max_call_chars: int = MAX_CHARS
) -> StreamParser:
    """Return a new parser for one stream."""
    kind = ResponsesParser if style == "responses" else ChatParser
    return kind(terminal=terminal, max_event_bytes=max_event_bytes, max_call_chars=max_call_chars)
