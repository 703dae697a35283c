"""Reads a streamed reply: chunks of bytes are pushed in, cut anywhere; clean text comes out, at the end one `Reply`.

Pure; nothing is ever raised. A push parser for each API style reads events, `CallReader` the tool calls in them,
`StopSequences` ends the text where the client wants it, and `ReplyReader` puts them together. A stream is complete only
when the upstream's own terminal marker is complete, including the blank line after it. Anything after the outcome is
ignored, and anything malformed ends the stream as incomplete, because guessing could hide missing text; a malformed
tool call does not.

Limits apply to any upstream. The length of one event is limited, because it is held in memory. The text is cut at
`max_bytes` of UTF-8. All bytes together, including pings and unknown events, are at most about `NOISE` times that: the
events of both styles spend 100 to 350 bytes on a token.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from uuid import uuid4

from chatmemory.llm.openai import failures, responses
from chatmemory.llm.openai.responses import CUSTOM, MalformedError, UpstreamEnding
from chatmemory.llm.protocol import Reply, ReplyError, ReplyStatus, ToolCall, Usage
from chatmemory.text.cleaning import TextCleaner, clean, clip_bytes

Style = Literal["responses", "chat"]
Terminal = Literal["strict", "done"]

MAX_CALLS = 128
"""Maximum number of calls in one reply. With more, the reply counts as too long, and has none."""
MAX_NAME_CHARS = 256
"""Maximum length of an id or a name, in characters."""
MAX_EXTRA_CHARS = 65_536
"""Maximum length of what comes with a call, as JSON."""
NOISE = 256
# An upstream repeats the whole text in its last event, where JSON may take six bytes for one of ours.
EVENT_FACTOR = 6
EVENT_ROOM = 1024 * 1024


def max_event_bytes(max_bytes: int) -> int:
    """The length of the longest event that a reply of `max_bytes` of text can need."""
    return EVENT_FACTOR * max_bytes + EVENT_ROOM


class ReplyReader:
    """`feed` chunks until `is_over`, `fail` if the transport failed, `finish` for the last text, then `reply`.

    With `takes_calls`, the reply has the calls that the model made. With `stops`, the reply is complete before the
    first of them; the upstream is not read on.
    """

    def __init__(
        self,
        style: Style,
        *,
        terminal: Terminal,
        max_bytes: int,
        takes_calls: bool = False,
        stops: Sequence[str] = (),
    ) -> None:
        longest = max_event_bytes(max_bytes)
        self._parser: StreamParser = parser_for(
            style,
            terminal=terminal,
            max_event_bytes=longest,
            max_call_chars=max_bytes,
        )
        self._takes_calls = takes_calls
        self._cleaner = TextCleaner()
        self._stops = StopSequences(stops)
        self._room = max_bytes
        self._raw_room = NOISE * max_bytes + longest
        self._has_text = False
        self._error: ReplyError | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing that may still arrive can matter."""
        return self._parser.is_over or self._error is not None or self._stops.was_found

    @property
    def has_ended(self) -> bool:
        """Whether the outcome is known, from the upstream or from us; usage may still follow."""
        return self._parser.ending is not None or self._error is not None or self._stops.was_found

    def feed(self, chunk: bytes) -> str:
        """Return the clean text that `chunk` completes; may be empty."""
        self._raw_room -= len(chunk)
        text = self._within_room(self._stops.feed(self._cleaner.feed(self._parser.feed(chunk))))
        if self._raw_room < 0:
            self.fail(failures.TOO_LONG)
        return text

    def fail(self, error: ReplyError) -> None:
        """Record a failure outside of the stream's text, unless the outcome is already known."""
        if not self.has_ended:
            self._error = error

    def finish(self) -> str:
        """Return the rest of the text, which the cleaner has kept back."""
        return self._within_room(self._stops.feed(self._cleaner.flush()) + self._stops.flush())

    def reply(self, *, model: str) -> Reply:
        """Return the `Reply`; `model` is the model's name if the upstream sent none."""
        error, is_stopped = self._error, self._stops.was_found
        if not is_stopped:
            error = error or self._parser.close().error
        calls: tuple[ToolCall, ...] = ()
        if self._takes_calls and not is_stopped:
            calls = _with_ids(self._parser.calls.named)
            if self._parser.calls.is_too_long:
                error = error or failures.TOO_LONG
        if not self._has_text and not calls and not is_stopped:
            error = error or failures.EMPTY_REPLY
        status: ReplyStatus = "complete"
        if error:
            status = "incomplete" if self._has_text else "failed"
        parser = self._parser
        name = parser.model or model
        return Reply(status, error, parser.usage, name, parser.response_id, () if error else calls)

    def _within_room(self, text: str) -> str:
        fitting = clip_bytes(text, self._room)
        self._room -= len(fitting) if fitting.isascii() else len(fitting.encode())
        self._has_text = self._has_text or bool(fitting)
        if len(fitting) < len(text):
            self._error = self._error or failures.TOO_LONG
            self._room = 0
        return fitting


def _with_ids(calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    """Give calls an id if they have none or a duplicate, as from some servers; they could not be answered otherwise."""
    made: dict[str, ToolCall] = {}
    for call in calls:
        name = call.id if call.id and call.id not in made else f"call_{uuid4().hex}"
        made[name] = replace(call, id=name)
    return tuple(made.values())


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
        max_call_chars: int = 2 * 1024 * 1024,
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
    style: Style, *, terminal: Terminal, max_event_bytes: int, max_call_chars: int = 2 * 1024 * 1024
) -> StreamParser:
    """Return a new parser for one stream."""
    kind = ResponsesParser if style == "responses" else ChatParser
    return kind(terminal=terminal, max_event_bytes=max_event_bytes, max_call_chars=max_call_chars)


@dataclass(slots=True)
class _StreamedCall:
    id: str = ""
    name: str = ""
    is_custom: bool = False
    extra: str = ""
    parts: list[str] = field(default_factory=list)


class CallReader:
    """Collects calls in the order in which they begin. Their arguments have at most `max_chars` characters together."""

    def __init__(self, max_chars: int) -> None:
        self._calls: list[_StreamedCall] = []
        self._by_index: dict[int | None, _StreamedCall] = {}
        self._max = self._room = max_chars

    @property
    def named(self) -> tuple[ToolCall, ...]:
        """The calls that name their function, cleaned; none if there are too many. An id may be empty."""
        if len(self._calls) > MAX_CALLS or self._room < 0:
            return ()
        made = [
            ToolCall(clean(one.id), clean(one.name), clean("".join(one.parts)), one.is_custom, one.extra)
            for one in self._calls
        ]
        return tuple(call for call in made if call.name)

    @property
    def is_too_long(self) -> bool:
        """Whether a part of the calls was not kept."""
        return self._room < 0 or len(self._calls) > MAX_CALLS

    def is_new(self, call_id: object) -> bool:
        """Whether a call with that id is not the last one."""
        return bool(call_id) and (not self._calls or self._calls[-1].id != call_id)

    def begin(self, call_id: object = None, name: object = None, *, is_custom: bool = False) -> None:
        """Begin another call."""
        if len(self._calls) <= MAX_CALLS:
            self._calls.append(_StreamedCall(is_custom=is_custom))
        self._tell(self._calls[-1], call_id, name)

    def add(self, piece: object) -> None:
        """Add the next piece of the last call's arguments."""
        if not self._calls:
            self.begin()
        self._add(self._calls[-1], piece)

    def replace(self, arguments: object) -> None:
        """Replace the arguments of the last call by the whole, which an upstream repeats at the end of the call."""
        if isinstance(arguments, str) and arguments:
            if self._calls:
                self._room += sum(map(len, self._calls[-1].parts))
                self._calls[-1].parts = []
            self.add(arguments)

    def replace_all(self, items: list[dict[str, Any]]) -> None:
        """Replace all calls by those of the object at the end of a Responses stream, if it has any."""
        if items:
            self._calls, self._room = [], self._max
        for item in items:
            is_custom = item.get("type") == CUSTOM
            self.begin(item.get("call_id"), item.get("name"), is_custom=is_custom)
            self.add(item.get("input" if is_custom else "arguments"))

    def add_chat_part(self, part: dict[str, Any]) -> None:
        """Add an entry of `delta.tool_calls`. Calls are distinguished by index, or by id, which is sent only once."""
        index, call_id = part.get("index"), part.get("id")
        place = index if isinstance(index, int) else None
        call = self._by_index.get(place)
        is_custom = isinstance(part.get("custom"), dict)
        tool = part.get("custom" if is_custom else "function")
        told = tool if isinstance(tool, dict) else {}
        if call is None or (isinstance(call_id, str) and call_id and call.id not in ("", call_id)):
            self.begin(call_id, told.get("name"), is_custom=is_custom)
            call = self._by_index[place] = self._calls[-1]
        self._tell(call, call_id, told.get("name"))
        call.extra = extra_in(part) or call.extra
        self._add(call, told.get("input" if is_custom else "arguments"))

    def _tell(self, call: _StreamedCall, call_id: object, name: object) -> None:
        if isinstance(call_id, str):
            call.id = call.id or call_id[:MAX_NAME_CHARS]
        if isinstance(name, str):
            call.name = call.name or name[:MAX_NAME_CHARS]

    def _add(self, call: _StreamedCall, piece: object) -> None:
        if not isinstance(piece, str) or not piece:
            return
        if self._room > 0:
            call.parts.append(piece[: self._room])
        self._room -= len(piece)


def extra_in(call: dict[str, Any]) -> str:
    """Return the `extra_content` of a call in Chat Completions' format as JSON; "" if it has none that can be kept."""
    extra = call.get("extra_content")
    if not isinstance(extra, dict) or not extra:
        return ""
    try:
        text = json.dumps(extra, allow_nan=False)
    except (ValueError, RecursionError):
        return ""
    return text if len(text) <= MAX_EXTRA_CHARS else ""


class StopSequences:
    """The results of `feed` and the last `flush` join to the text before the first stop sequence."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self.was_found = False

    def feed(self, delta: str) -> str:
        """Return the text that is certain by now; the end of it may be the beginning of a stop sequence."""
        if self.was_found or not self._stops:
            return "" if self.was_found else delta
        text, self._held = self._held + delta, ""
        if found := [at for stop in self._stops if (at := text.find(stop)) >= 0]:
            self.was_found = True
            return text[: min(found)]
        begun = (
            length
            for stop in self._stops
            for length in range(min(len(stop) - 1, len(text)), 0, -1)
            if text.endswith(stop[:length])
        )
        certain = len(text) - max(begun, default=0)
        self._held = text[certain:]
        return text[:certain]

    def flush(self) -> str:
        """Return what was held back, when no more text arrives."""
        held, self._held = self._held, ""
        return held
