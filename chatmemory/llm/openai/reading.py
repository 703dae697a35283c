"""Reads what an upstream answers, in both API styles: streams, pushed in as bytes cut anywhere, and whole answers.

Pure. A stream is complete only when the upstream's own terminal marker is complete, including the blank line after it.
Anything after the outcome is ignored, and anything malformed ends the stream as incomplete, because guessing could hide
missing text; a malformed tool call does not. A field of the wrong type is malformed if it should hold text, and is
ignored if it is only informative.

Limits apply to any upstream. The length of one event is limited, because it is held in memory. The text is cut at
`max_bytes` of UTF-8. All bytes together, including pings and unknown events, are at most about `NOISE` times that: the
events of both styles spend 100 to 350 bytes on a token.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

import orjson

from chatmemory.llm.openai import failures
from chatmemory.llm.openai.failures import MalformedError
from chatmemory.llm.protocol import (
    Completion,
    Reply,
    ReplyError,
    ReplyStatus,
    ToolCall,
    UpstreamError,
    Usage,
)
from chatmemory.text.cleaning import TextCleaner, clean

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
# The lengths of the columns for stored answers; a test compares them.
MAX_MODEL_CHARS = 128
MAX_ID_CHARS = 200
MAX_TOKENS = 100_000_000
"""Maximum tokens of one answer, in or out. No model reads or writes that much, so higher counts are ignored."""

# OpenAI says "stop". The next are the same in text-generation-inference, Together and Anthropic bridges; the last two
# end an answer that calls a tool.
STOPPED = {"stop", "eos", "eos_token", "stop_sequence", "end_turn", "tool_calls", "function_call"}
CUSTOM = "custom_tool_call"
"""The type of an item that calls a custom tool, whose `input` is any text."""


class ReplyReader:
    """`feed` chunks until `is_over`, `fail` if the transport failed, `finish` for the last text, then `reply`.

    With `takes_calls`, the reply has the calls that the model made. With `stops`, the reply is complete before the
    first of them; the upstream is not read on. `terminal="done"` also accepts `[DONE]` as a terminal marker, for
    servers that leave `finish_reason` null on complete answers. It is not the default, because proxies send `[DONE]`
    after a cut, too.
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
        self._style, self._terminal, self._takes_calls = style, terminal, takes_calls
        self._max_bytes = max_bytes
        self._max_event_bytes = EVENT_FACTOR * max_bytes + EVENT_ROOM
        self._room = max_bytes
        self._raw_room = NOISE * max_bytes + self._max_event_bytes
        self._unended = bytearray()
        """The line that is not yet whole."""
        self._data: list[bytes] = []
        """The lines of the event that is not yet whole."""
        self._data_bytes = 0
        self._cleaner = TextCleaner()
        self._stops = StopSequences(stops)
        self._calls = CallReader(max_bytes)
        self._usage: Usage | None = None
        self._model = self._response_id = ""
        self._has_events = self._has_deltas = self._has_text = self._refused = False
        self._error: ReplyError | None = None
        """Why we ended the reply."""
        self._is_reported = False
        """Whether the upstream reported how the reply ended: with `_reported_error`, or as complete."""
        self._reported_error: ReplyError | None = None
        self._is_closed = False
        """Whether nothing that the upstream still sends can change text, outcome or usage."""

    @property
    def is_over(self) -> bool:
        """Whether nothing that may still arrive can matter."""
        return self._is_closed or self._error is not None or self._stops.was_found

    @property
    def has_ended(self) -> bool:
        """Whether the outcome is known, from the upstream or from us; usage may still follow."""
        return self._is_reported or self._error is not None or self._stops.was_found

    def feed(self, chunk: bytes) -> str:
        """Return the clean text that `chunk` completes; may be empty."""
        self._raw_room -= len(chunk)
        read = "" if self._is_closed else self._text_in(chunk)
        text = self._within_room(self._stops.feed(self._cleaner.feed(read)))
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
        error, calls = self._error, tuple[ToolCall, ...]()
        if not self._stops.was_found:
            if not self._is_reported:
                error = error or (failures.BROKE_OFF if self._has_events else failures.INVALID_RESPONSE)
            error = error or self._reported_error
            if self._takes_calls:
                calls = self._calls.named
                error = error or (failures.TOO_LONG if self._calls.is_too_long else None)
            if not (self._has_text or calls):
                error = error or failures.EMPTY_REPLY
        status: ReplyStatus = "complete"
        if error:
            status, calls = "incomplete" if self._has_text else "failed", ()
        return Reply(status, error, self._usage, self._model or model, self._response_id, calls)

    def _within_room(self, text: str) -> str:
        size = len(text) if text.isascii() else len(text.encode())
        if size > self._room:
            self._error = self._error or failures.TOO_LONG
            text, size = text.encode()[: self._room].decode(errors="ignore"), self._room
        self._room -= size
        self._has_text = self._has_text or bool(text)
        return text

    def _text_in(self, chunk: bytes) -> str:
        """The text of the events that `chunk` completes, uncleaned. An event without its blank line does not count."""
        texts: list[str] = []
        ended, newline, rest = chunk.rpartition(b"\n")
        if newline:
            ended, self._unended = bytes(self._unended) + ended, bytearray()
            for line in ended.split(b"\n"):
                if line[:5] == b"data:":
                    self._data.append(line[5:])
                    self._data_bytes += len(line)
                elif self._data and (not line or line == b"\r"):
                    texts.append(self._event())
                    if self._is_closed:
                        break
        self._unended += rest
        if len(self._unended) + self._data_bytes > self._max_event_bytes:
            self._close(failures.TOO_LONG)
        return "".join(texts)

    def _event(self) -> str:
        """The text of the event that is whole now."""
        data = b"\n".join(self._data).strip()
        self._data, self._data_bytes = [], 0
        if data == b"[DONE]":
            if self._terminal == "done" and not self._is_reported:
                self._tell(failures.REFUSED if self._refused else None)
            self._is_closed = True
            return ""
        try:
            event = load_object(data)
            self._has_events = True
            return self._read_responses(event) if self._style == "responses" else self._read_chat(event)
        except MalformedError:
            self._close(failures.INVALID_RESPONSE)
            return ""

    def _tell(self, error: ReplyError | None) -> None:
        self._is_reported, self._reported_error = True, error

    def _close(self, error: ReplyError) -> None:
        if not self._is_reported:
            self._tell(error)
        self._is_closed = True

    def _read_responses(self, event: dict[str, Any]) -> str:
        """Return the text of an event of the Responses API. Its markers: `response.completed` and the like, `error`."""
        kind = event.get("type")
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            self._has_deltas = True
            self._refused = self._refused or kind == "response.refusal.delta"
            return text_in(event.get("delta"))
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            response = object_in(event.get("response"))
            status = kind.removeprefix("response.")
            text, error = _responses_ending(response, status, refused=self._refused)
            self._name(response)  # a gateway may not know at the beginning which model will answer
            self._usage = usage_in(response.get("usage"))
            if items := calls_in(response.get("output")):
                self._calls = CallReader(self._max_bytes)
                self._calls.add_items(items)
            self._tell(error)
            self._is_closed = True
            return "" if self._has_deltas else text  # some servers send only the whole text, at the end
        if kind == "response.output_item.done":
            self._calls.add_items(calls_in([event.get("item")]))
        if kind == "error" or event.get("error"):
            self._close(failures.from_report(event.get("error") or event))
        elif kind == "response.created":
            self._name(object_in(event.get("response")))
        return ""

    def _name(self, response: dict[str, Any]) -> None:
        self._model = label_in(response.get("model"), MAX_MODEL_CHARS) or self._model
        self._response_id = label_in(response.get("id"), MAX_ID_CHARS) or self._response_id

    def _read_chat(self, event: dict[str, Any]) -> str:
        """Return the text of a chunk of Chat Completions. Its marker: `finish_reason`; then usage and `[DONE]`."""
        if event.get("error"):
            self._close(failures.from_report(event["error"]))
            return ""
        if usage := event.get("usage"):
            self._usage = usage_in(usage) or self._usage
        if not (self._model and self._response_id):
            self._name(event)
        choices = objects_in(event.get("choices"))
        if not choices:
            return ""
        delta = object_in(choices[0].get("delta"))
        refusal = text_in(delta.get("refusal"))
        text = text_in(delta.get("content")) + refusal
        self._refused = self._refused or bool(refusal)
        for part in (parts := objects_in(delta.get("tool_calls"))):
            self._calls.add_chat_part(part)
        if text or parts:  # some servers send a reason in every chunk: it counts only if nothing follows
            self._is_reported = False
        if reason := text_in(choices[0].get("finish_reason")):
            self._tell(chat_error(reason, refused=self._refused))
        return text


@dataclass(slots=True)
class _StreamedCall:
    is_custom: bool
    id: str = ""
    name: str = ""
    extra: str = ""
    parts: list[str] = field(default_factory=list)


class CallReader:
    """Collects calls in the order in which they begin. Their arguments have at most `max_chars` characters together."""

    def __init__(self, max_chars: int) -> None:
        self._calls: list[_StreamedCall] = []
        self._by_index: dict[int | None, _StreamedCall] = {}
        self._room = max_chars

    @property
    def named(self) -> tuple[ToolCall, ...]:
        """The calls that name their function, cleaned; none if there are too many.

        They get an id if they have none or a duplicate, as from some servers; they could not be answered otherwise.
        """
        named: dict[str, ToolCall] = {}
        for one in () if self.is_too_long else self._calls:
            call_id, name, arguments = clean(one.id), clean(one.name), clean("".join(one.parts))
            if not call_id or call_id in named:
                call_id = f"call_{uuid4().hex}"
            if name:
                named[call_id] = ToolCall(call_id, name, arguments, one.is_custom, one.extra)
        return tuple(named.values())

    @property
    def is_too_long(self) -> bool:
        """Whether a part of the calls was not kept."""
        return self._room < 0 or len(self._calls) > MAX_CALLS

    def add_items(self, items: Iterable[dict[str, Any]]) -> None:
        """Add whole calls, which are items of the Responses API."""
        for item in items:
            is_custom = item.get("type") == CUSTOM
            arguments = item.get("input" if is_custom else "arguments")
            self._extend(self._begin(is_custom), item.get("call_id"), item.get("name"), arguments)

    def add_chat_part(self, part: dict[str, Any]) -> None:
        """Add an entry of `delta.tool_calls`. Calls are distinguished by index, or by id, which is sent only once."""
        index, call_id = part.get("index"), part.get("id")
        place = index if isinstance(index, int) else None
        is_custom = isinstance(part.get("custom"), dict)
        value = part.get("custom" if is_custom else "function")
        tool = value if isinstance(value, dict) else {}
        call = self._by_index.get(place)
        if call is None or (isinstance(call_id, str) and call_id and call.id not in ("", call_id)):
            call = self._by_index[place] = self._begin(is_custom)
        call.extra = extra_in(part) or call.extra
        self._extend(call, call_id, tool.get("name"), tool.get("input" if is_custom else "arguments"))

    def _begin(self, is_custom: bool) -> _StreamedCall:
        if len(self._calls) <= MAX_CALLS:
            self._calls.append(_StreamedCall(is_custom))
        return self._calls[-1]

    def _extend(self, call: _StreamedCall, call_id: object, name: object, piece: object) -> None:
        if isinstance(call_id, str):
            call.id = call.id or call_id[:MAX_NAME_CHARS]
        if isinstance(name, str):
            call.name = call.name or name[:MAX_NAME_CHARS]
        if isinstance(piece, str) and piece:
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


def read_answer(body: dict[str, Any], *, is_chat: bool, model: str) -> Completion:
    """Read a whole answer in either style; `model` is the model's name if the upstream sent none.

    Cut-off and refusal are marked; any other unusual end raises `UpstreamError`.
    """
    text, error = _chat_ending(body) if is_chat else _responses_ending(body, body.get("status", "completed"))
    if error and error not in (failures.TOO_LONG, failures.REFUSED):
        raise UpstreamError(error)
    return Completion(
        text=clean(text),
        model=label_in(body.get("model"), MAX_MODEL_CHARS) or model,
        usage=usage_in(body.get("usage")),
        truncated=error == failures.TOO_LONG,
        refused=error == failures.REFUSED,
    )


def _responses_ending(
    response: dict[str, Any], status: object, *, refused: bool = False
) -> tuple[str, ReplyError | None]:
    """The text of a Responses object, and why it is not complete. `refused`: a part of it is known to refuse."""
    items = [item for item in objects_in(response.get("output")) if item.get("type") == "message"]
    parts = [part for item in items for part in objects_in(item.get("content"))]
    text = "".join(text_in(part.get("text")) + text_in(part.get("refusal")) for part in parts)
    if status == "completed":
        refused = refused or any(part.get("type") == "refusal" for part in parts)
        return text, failures.REFUSED if refused else None
    if status == "incomplete":
        details = response.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        return text, failures.ended_for(reason if isinstance(reason, str) else "")
    return text, failures.from_report(response.get("error"))


def _chat_ending(body: dict[str, Any]) -> tuple[str, ReplyError | None]:
    """A null `finish_reason` is accepted here, because the JSON is complete."""
    if error := body.get("error"):
        return "", failures.from_report(error)
    choices = objects_in(body.get("choices"))
    if not choices:
        raise MalformedError
    message = object_in(choices[0].get("message"))
    refusal = text_in(message.get("refusal"))
    reason = text_in(choices[0].get("finish_reason")) or "stop"
    return text_in(message.get("content")) + refusal, chat_error(reason, refused=bool(refusal))


def load_object(data: bytes) -> dict[str, Any]:
    """Parse one JSON object. Raise `MalformedError` for anything else: bad UTF-8, bad JSON, a list."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as refused:
        # Python accepts some JSON that orjson refuses, such as half a surrogate pair, whose other half may come next.
        # It would go as deep as the interpreter can, where whatever is tidied up meanwhile fails, too.
        if "depth" in refused.msg:
            raise MalformedError from refused
        try:
            value = json.loads(data.decode())
        except (ValueError, RecursionError) as exc:
            raise MalformedError from exc
    if not isinstance(value, dict):
        raise MalformedError
    return value


def error_in_body(body: bytes) -> object:
    """The error in the body of an answer with a status of failure; plain text is one, a page is not."""
    text = body.decode(errors="replace").strip()
    try:
        return failures.error_in(orjson.loads(text))
    except orjson.JSONDecodeError:
        return None if text.startswith("<") else text


def text_in(value: object) -> str:
    """Return a text field; null and absent are empty. Raise `MalformedError` for other types."""
    if isinstance(value, str):
        return value
    if value is not None:
        raise MalformedError
    return ""


def object_in(value: object) -> dict[str, Any]:
    """Return an object field; null and absent are empty. Raise `MalformedError` for other types."""
    if not isinstance(value, dict | None):
        raise MalformedError
    return value or {}


def objects_in(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list field; other items and types are ignored."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def usage_in(value: object) -> Usage | None:
    """Token counts in either style's names; None unless input and output are present and plausible."""
    sent = count_in(value, "input_tokens", "prompt_tokens")
    written = count_in(value, "output_tokens", "completion_tokens")
    if not isinstance(value, dict) or sent is None or written is None:
        return None
    details = value.get("input_tokens_details") or value.get("prompt_tokens_details")
    cached = count_in(details, "cached_tokens") or 0
    return Usage(sent, min(cached, sent), written)


def count_in(counts: object, *names: str) -> int | None:
    """The first of these counts that is there and plausible."""
    found = [counts.get(name) for name in names] if isinstance(counts, dict) else []
    return next((one for one in found if type(one) is int and 0 <= one <= MAX_TOKENS), None)  # not a bool


def label_in(value: object, length: int) -> str:
    """A name from the upstream: one line of printable characters, of bounded length; empty for other types."""
    if not isinstance(value, str):
        return ""
    return "".join(filter(str.isprintable, clean(value[: 4 * length]))).strip()[:length]


def calls_in(output: object) -> list[dict[str, Any]]:
    """The items in the output of a Responses object that call tools."""
    return [item for item in objects_in(output) if item.get("type") in ("function_call", CUSTOM)]


def chat_error(finish_reason: str, *, refused: bool) -> ReplyError | None:
    """Why a chat completion is not complete, by its finish reason."""
    if finish_reason in STOPPED:
        return failures.REFUSED if refused else None
    return failures.ended_for(finish_reason)
