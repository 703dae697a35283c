"""Reads what an upstream answers, in both API styles, pushed in as bytes cut anywhere.

Pure. The body itself shows whether it is a stream or one JSON object: servers send either, asked or not, and
under any content type. Streams are taken as the SDK takes them, whose own parser needs twice the CPU (measured).

A stream is complete only when the upstream's own terminal marker is complete; the blank line after it may be missing.
Anything after the outcome is ignored, and anything malformed ends the stream as incomplete, because guessing could hide
missing text; a malformed tool call does not. A field of the wrong type is malformed if it should hold text, and is
ignored if it is only informative.

Limits apply to any upstream. The length of one event is limited, because it is held in memory. The text is cut at
`max_bytes` of UTF-8. All bytes together, including pings and unknown events, are at most about `NOISE` times that: the
events of both styles spend 100 to 350 bytes on a token.
"""

import codecs
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

import orjson

from chatmemory.llm.openai import failures
from chatmemory.llm.openai.failures import MalformedError
from chatmemory.llm.protocol import (
    MAX_EXTRA_CHARS,
    Completion,
    Reply,
    ReplyError,
    ReplyStatus,
    ToolCall,
    UpstreamError,
    Usage,
    is_object,
    reasoning_item,
)
from chatmemory.text.cleaning import TextCleaner, clean, without_invisible

Style = Literal["responses", "chat"]
Terminal = Literal["strict", "done"]

MAX_CALLS = 128
"""Maximum number of calls in one reply. With more, the reply counts as too long, and has none."""
MAX_NAME_CHARS = 256
MAX_CALL_ID_CHARS = 16_384
"""Maximum length of a call's id, in which LiteLLM sends the signature of a thought that Gemini demands back."""
NOISE = 256
# An upstream repeats the whole text in its last event, where JSON may take six bytes for one of ours.
EVENT_FACTOR = 6
EVENT_ROOM = 1024 * 1024
# The lengths of the columns for models' names and stored answers; a test compares them.
MAX_MODEL_CHARS = 128
MAX_ID_CHARS = 200
MAX_TOKENS = 100_000_000
"""Maximum tokens of one answer, in or out. No model reads or writes that much, so higher counts are ignored."""

TEXT_PARTS = {"text", "output_text", "refusal"}
MAX_TOKEN_BYTES = 256
"""No token is longer, so that a lower count of an answer's tokens is impossible."""
CACHED_BESIDE = ("cached_tokens", "num_cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")

# OpenAI says "stop". The next are the same in text-generation-inference, Together, Cohere and Anthropic bridges; the
# last four end an answer that calls a tool.
STOPPED = set("stop eos eos_token stop_sequence end_turn complete tool_calls function_call tool_use tool_call".split())
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
        self._is_json: bool | None = None
        """Whether the body is one JSON object; None until that is known."""
        self._unended = bytearray()
        """The line that is not yet whole; of JSON, all of it."""
        self._ends_with_cr = False
        """Whether a line feed that comes next belongs to the line end before."""
        self._data: list[bytes] = []
        """The lines of the event that is not yet whole."""
        self._data_bytes = 0
        self._event_name = b""
        """The name of that event."""
        self._blank: list[str] = []
        """The blank text with which the reply begins: nothing is shown of a reply that stays blank."""
        self._cleaner = TextCleaner()
        self._stops = StopSequences(stops)
        self._calls = CallReader(max_bytes)
        self._usage: Usage | None = None
        self._model = self._response_id = ""
        self._has_events = self._has_deltas = self._has_items = self._has_text = self._refused = False
        self._error: ReplyError | None = None
        """Why we ended the reply."""
        self._is_reported = False
        """Whether the upstream reported how the reply ended: with `_reported_error`, or as complete."""
        self._reported_error: ReplyError | None = None
        self._was_early = False
        """Whether text or a call came with such a report, or after it."""
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

    @property
    def is_settled(self) -> bool:
        """Whether that outcome is believed at once: some servers say "stop" in every chunk, or before the first."""
        return self.is_over or (self.has_ended and self._has_deltas and not self._was_early)

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
        """Return the rest of the text: what was kept back, and that of one JSON object or an event without its end."""
        read = ""
        if self._is_json and not self.has_ended:
            read = self._event(bytes(self._unended))
        elif not self.has_ended and (self._data or self._unended.endswith(b"}")):
            read = self._text_in(b"\n\n")
        rest = self._cleaner.feed(read) + self._cleaner.flush()
        return self._within_room(self._stops.feed(rest) + self._stops.flush())

    def reply(self, *, model: str) -> Reply:
        """Return the `Reply`; `model` is the model's name if the upstream sent none."""
        error, calls = self._error, tuple[ToolCall, ...]()
        if not self._stops.was_found:
            if not self._is_reported:
                error = error or (failures.BROKE_OFF if self._has_events else failures.INVALID_RESPONSE)
            error = error or self._reported_error
            if self._takes_calls:
                calls = self._calls.named(model)
                error = error or (failures.TOO_LONG if self._calls.is_too_long else None)
            if not (self._has_text or calls):
                error = error or failures.EMPTY_REPLY
        usage = self._usage
        written = self._max_bytes - self._room + bool(calls)
        if usage and usage.output_tokens * MAX_TOKEN_BYTES < written:  # impossible
            usage = None
        status: ReplyStatus = "complete"
        if error:
            status, calls = "incomplete" if self._has_text else "failed", ()
        return Reply(status, error, usage, self._model or model, self._response_id, calls)

    def _within_room(self, text: str) -> str:
        size = len(text) if text.isascii() else len(text.encode())
        if size > self._room:
            self._error = self._error or failures.TOO_LONG
            text, size = text.encode()[: self._room].decode(errors="ignore"), self._room
        self._room -= size
        if text and not self._has_text:
            self._blank.append(text)
            if not without_invisible(text).strip():
                return ""
            self._has_text, text = True, "".join(self._blank)
        return text

    def _text_in(self, chunk: bytes) -> str:
        """The text of the events that `chunk` completes, uncleaned."""
        if self._is_json is not False:
            chunk = self._beginning(chunk)
        if self._ends_with_cr or b"\r" in chunk:
            begins_with_lf = self._ends_with_cr and chunk[:1] == b"\n"  # of the CR LF that was cut between
            chunk, self._ends_with_cr = chunk[begins_with_lf:], chunk[-1:] == b"\r"
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        ended, newline, rest = chunk.rpartition(b"\n")
        if newline and self._unended:
            ended, self._unended = bytes(self._unended) + ended, bytearray()
        text = self._text_of_lines(ended) if newline else ""
        self._unended += rest
        if len(self._unended) + self._data_bytes > self._max_event_bytes:
            self._close(failures.TOO_LONG)
        return text

    def _text_of_lines(self, lines: bytes) -> str:
        texts = ""
        for line in lines.split(b"\n"):
            if line[:5] == b"data:":
                self._data.append(line[5:])
                self._data_bytes += len(line)
            elif not line:
                if self._data:
                    texts += self._event()
                    if self._is_closed:
                        break
                self._event_name = b""
            elif line[:6] == b"event:":
                self._event_name = line[6:].strip()
            elif line.startswith((b"{", b" {", b"error:")):  # gateways' errors; llama.cpp's before September 2025
                self._event_name = b"error" if line[:1] == b"e" else self._event_name
                self._data.append(line.removeprefix(b"error:"))
                self._data_bytes += len(line)
        return texts

    def _beginning(self, chunk: bytes) -> bytes:
        """The text so far, without leading blanks and byte order mark, once it is known not to be JSON."""
        self._unended += chunk
        if self._is_json is None and not codecs.BOM_UTF8.startswith(self._unended):
            self._unended = self._unended.removeprefix(codecs.BOM_UTF8).lstrip()
            self._is_json = self._unended.startswith((b"{", b"[")) if self._unended else None
        if self._is_json is not False:
            return b""
        chunk, self._unended = bytes(self._unended), bytearray()
        return chunk

    def _event(self, data: bytes = b"") -> str:
        """The text of the event that is whole now, or of `data`."""
        data = data or b"\n".join(self._data)
        self._data, self._data_bytes = [], 0
        if self._event_name == b"error":
            self._close(failures.from_report(error_in_body(data)))
            return ""
        try:
            event = load_object(data)
            self._has_events = True
            return self._read_responses(event) if self._style == "responses" else self._read_chat(event)
        except MalformedError:
            return self._other_event(data.strip())

    def _other_event(self, data: bytes) -> str:
        """The text of an event that is no object: empty, null, a comment, `[DONE]`, or several without blank lines."""
        if data.startswith(b"[DONE]"):
            if self._terminal == "done" and not self._is_reported:
                self._tell(failures.REFUSED if self._refused else None)
            self._is_closed = True
        elif b"\n" in data:
            return "".join(self._event(line) for line in data.split(b"\n") if not self._is_closed)
        elif data not in (b"", b"null") and data[:1] != b":":
            self._close(failures.INVALID_RESPONSE)
        return ""

    def _tell(self, error: ReplyError | None) -> None:
        self._is_reported, self._reported_error = True, error

    def _close(self, error: ReplyError) -> None:
        if not self._is_reported:
            self._tell(error)
        self._is_closed = True

    def _read_responses(self, event: dict[str, Any]) -> str:
        """Return the text of an event of the Responses API. Its markers: `response.completed` and the like."""
        kind = event.get("type") or self._event_name.decode(errors="replace")
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            self._has_deltas = True
            self._refused = self._refused or kind == "response.refusal.delta"
            return text_of(event.get("delta"))
        if "output" in event:  # an answer that was not streamed
            kind, event = f"response.{event.get('status') or 'completed'}", {"response": event}
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            response = object_in(event.get("response"))
            status = kind.removeprefix("response.")
            text, error = _responses_ending(response, status, refused=self._refused)
            self._name(response)  # a gateway may not know at the beginning which model will answer
            self._usage = usage_in(response.get("usage"))
            calls = CallReader(self._max_bytes)
            calls.add_items(objects_in(response.get("output")))
            if calls.named() or calls.is_too_long:
                self._calls = calls
            self._tell(error)
            self._is_closed = True
            return "" if self._has_deltas or self._has_items else text  # some send only the whole text, at the end
        if kind == "response.output_item.done":
            items = objects_in([event.get("item")])
            self._calls.add_items(items)
            if not self._has_deltas and items and items[0].get("type") == "message":  # or in each item, not at the end
                self._has_items = True
                return text_of(items[0].get("content"))
        elif kind == "response.created":
            self._name(object_in(event.get("response")))
        elif reported := failures.reported_in(event):
            self._close(failures.from_report(reported))
        return ""

    def _name(self, response: dict[str, Any]) -> None:
        self._model = label_in(response.get("model"), MAX_MODEL_CHARS) or self._model
        self._response_id = label_in(response.get("id"), MAX_ID_CHARS) or self._response_id

    def _read_chat(self, event: dict[str, Any]) -> str:
        """Return the text of a chunk of Chat Completions. Its marker: `finish_reason`; then usage and `[DONE]`.

        An answer that was not streamed has a `message`, without a `delta` or beside an empty one, and its
        `finish_reason` may be null.
        """
        choices = objects_in(event.get("choices"))
        choice = choices[0] if choices else {}
        if usage := event.get("usage") or choice.get("usage"):
            self._usage = usage_in(usage) or self._usage
        if not (self._model and self._response_id):
            self._name(event)
        delta, unsaid = object_in(choice.get("delta")), ""
        is_empty = not any(value for name, value in delta.items() if name != "role")
        if is_empty and not self._has_deltas and (message := choice.get("message")):
            delta, unsaid = object_in(message), "stop"
        text = text_of(delta.get("content"))
        if refusal := delta.get("refusal"):
            self._refused, text = True, text + text_in(refusal)
        if isinstance(thought := delta.get("reasoning_content"), str):
            self._calls.thoughts = (self._calls.thoughts + thought)[: MAX_EXTRA_CHARS // 8]
        if calls := delta.get("tool_calls") or delta.get("function_call"):
            self._calls.add_chat(calls)
        if text or calls:  # some servers send a reason in every chunk: it counts only if nothing follows
            self._was_early = self._was_early or self._is_reported or bool(choice.get("finish_reason"))
            self._has_deltas, self._is_reported = True, False
        if error := choice.get("error") or (failures.reported_in(event) if not choices else event.get("error")):
            self._close(failures.from_report(error))
        elif reason := text_in(choice.get("finish_reason") or choice.get("finishReason")) or unsaid:
            is_failure = "error" in str(choice.get("native_finish_reason"))  # OpenRouter says "stop" all the same
            self._tell(failures.UNUSUAL_END if is_failure else chat_error(reason.lower(), refused=self._refused))
        return text


@dataclass(slots=True, eq=False)
class _StreamedCall:
    is_custom: bool
    id: str = ""
    name: str = ""
    extra: str = ""
    reasoning: list[dict[str, Any]] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)


class CallReader:
    """Collects calls in the order in which they begin. Their arguments have at most `max_chars` characters together."""

    def __init__(self, max_chars: int) -> None:
        self._calls: list[_StreamedCall] = []
        self._by_place: dict[int | str, _StreamedCall] = {}
        """By index or id; by "" the one to which the last piece belonged."""
        self._room = max_chars
        self._reasoning: list[dict[str, Any]] = []
        """The thoughts that belong to the next call."""
        self.thoughts = ""
        """In Chat Completions, as much as can be kept of those before the first call."""
        self._checks = 2 * MAX_CALLS
        """How often arguments may still be parsed, so that the time is in proportion to their length."""

    def named(self, model: str = "") -> tuple[ToolCall, ...]:
        """The calls of `model` that name their function, cleaned; none if there are too many.

        They get an id if they have none or a duplicate, as from some servers; they could not be answered otherwise.
        """
        named: dict[str, ToolCall] = {}
        for one in () if self.is_too_long else self._calls:
            call_id, arguments = one.id, clean("".join(one.parts)) or ("" if one.is_custom else "{}")
            if not call_id or call_id in named:
                call_id = uuid4().hex[:9]  # Mistral's servers accept nothing else
            if one.name:
                call = ToolCall(call_id, one.name, arguments, one.is_custom, one.extra)
                named[call_id] = call.after(one.reasoning or ("" if named else clean(self.thoughts))).made_by(model)
        return tuple(named.values())

    @property
    def is_too_long(self) -> bool:
        """Whether a part of the calls was not kept."""
        return self._room < 0 or len(self._calls) > MAX_CALLS

    def add_items(self, items: Iterable[dict[str, Any]]) -> None:
        """Add the calls among whole items of the Responses API, each with the thoughts before it."""
        for item in items:
            if reasoning := reasoning_item(item):
                self._reasoning.append(reasoning)
            if item.get("type") not in ("function_call", CUSTOM):
                continue
            is_custom = item.get("type") == CUSTOM
            arguments = item.get("input" if is_custom else "arguments")
            call_id = label_in(item.get("call_id"), MAX_CALL_ID_CHARS)
            name, namespace = (label_in(item.get(one), MAX_NAME_CHARS) for one in ("name", "namespace"))
            call = self._begin(is_custom)
            call.extra = _json_of({"namespace": namespace} if namespace else {})
            call.reasoning, self._reasoning = self._reasoning, []
            self._extend(call, call_id, name, arguments)

    def add_chat(self, calls: object) -> None:
        """Add the calls, or pieces of them, in a delta or a message.

        OpenAI gives each call an index, and its id and name only in its first piece. Other servers send no index or 0
        for all, no id or another one with each piece, or the name with each; or, as OpenAI once did, a `function_call`.
        """
        parts = [{"function": calls}] if isinstance(calls, dict) else objects_in(calls)
        touched: list[_StreamedCall] = []
        for part in parts:
            index, call_id = part.get("index"), label_in(part.get("id"), MAX_CALL_ID_CHARS)
            is_custom = isinstance(part.get("custom"), dict)
            value = part.get("custom" if is_custom else "function")
            tool = value if isinstance(value, dict) else {}
            name = label_in(tool.get("name"), MAX_NAME_CHARS).partition("<|")[0]  # `find<|channel|>commentary`
            piece = tool.get("input" if is_custom else "arguments")
            place = index if isinstance(index, int | str) else call_id
            call = self._by_place.get(place)
            if call is None and (place == call_id or not (name or call_id)):
                call = self._by_place.get("")
            if call and call_id and call_id == call.id and self._repeats(call, piece):
                continue
            if call is None or (name and call in touched) or self._begins_another(call, call_id, name, piece):
                call = self._begin(is_custom)
            touched.append(call)
            self._by_place[place] = self._by_place[""] = call
            call.extra = extra_in(part) or call.extra
            self._extend(call, call_id, name, piece)

    def _begins_another(self, call: _StreamedCall, call_id: str, name: str, piece: object) -> bool:
        """Whether a piece that has the place of `call` does not continue it: arguments never follow whole ones."""
        restarts = isinstance(piece, dict) or (isinstance(piece, str) and piece.lstrip()[:1] == "{")
        if name and call.name and name != call.name:
            return True
        if name and call_id and call.id not in ("", call_id):
            return call.is_custom or restarts or not call.parts or self._is_whole(call)
        if call.is_custom or not restarts or not self._is_whole(call):
            return False
        if name or call.parts != ["{}"]:
            return True
        call.parts = []  # a placeholder, as from bridges to Anthropic's API
        return False

    def _repeats(self, call: _StreamedCall, piece: object) -> bool:
        """Whether a piece has all arguments of a call once more, perhaps as a JSON string: LiteLLM ends so."""
        whole = "".join(call.parts)
        return piece in (whole, json.dumps(whole)) and self._is_whole(call)

    def _is_whole(self, call: _StreamedCall) -> bool:
        if not call.parts or call.parts[-1].rstrip()[-1:] != "}" or not self._checks:
            return False
        self._checks -= 1
        return is_object("".join(call.parts))

    def _begin(self, is_custom: bool) -> _StreamedCall:
        if len(self._calls) <= MAX_CALLS:
            self._calls.append(_StreamedCall(is_custom))
        return self._calls[-1]

    def _extend(self, call: _StreamedCall, call_id: str, name: str, piece: object) -> None:
        call.id, call.name = call.id or call_id, call.name or name
        piece = _json_of(piece) if isinstance(piece, dict) else piece
        if isinstance(piece, str) and piece:
            if self._room > 0:
                call.parts.append(piece[: self._room])
            self._room -= len(piece)


def extra_in(call: dict[str, Any]) -> str:
    """Return the `extra_content` of a call in Chat Completions' format as JSON; "" if it has none that can be kept."""
    extra = call.get("extra_content")
    text = _json_of(extra) if isinstance(extra, dict) else ""
    return text if len(text) <= MAX_EXTRA_CHARS else ""


def _json_of(value: dict[str, Any]) -> str:
    """The JSON of an object; "" if that is empty or has none."""
    try:
        return json.dumps(value, allow_nan=False) if value else ""
    except (ValueError, RecursionError):
        return ""


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


def read_answer(body: bytes, style: Style, terminal: Terminal, *, model: str) -> Completion:
    """Read a whole body in either style; `model` is the model's name if the upstream sent none.

    Cut-off and refusal are marked; any other unusual end raises `UpstreamError`.
    """
    reader = ReplyReader(style, terminal=terminal, max_bytes=len(body))
    text = reader.feed(body) + reader.finish()
    reply = reader.reply(model=model)
    if reply.error not in (None, failures.TOO_LONG, failures.REFUSED, failures.EMPTY_REPLY):
        unread = failures.INVALID_RESPONSE, failures.BROKE_OFF
        raise UpstreamError(reply.error, may_retry=reply.error in unread)
    return Completion(
        text=text,
        model=reply.model,
        usage=reply.usage,
        truncated=reply.error == failures.TOO_LONG,
        refused=reply.error == failures.REFUSED,
    )


def _responses_ending(
    response: dict[str, Any], status: object, *, refused: bool = False
) -> tuple[str, ReplyError | None]:
    """The text of a Responses object, and why it is not complete. `refused`: a part of it is known to refuse."""
    items = [item for item in objects_in(response.get("output")) if item.get("type") == "message"]
    text = "".join(text_of(item.get("content")) for item in items)
    if status == "completed":
        parts = (part for item in items for part in objects_in(item.get("content")))
        refused = refused or any(part.get("type") == "refusal" for part in parts)
        return text, failures.REFUSED if refused else None
    if status == "incomplete":
        details = response.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        return text, failures.ended_for(reason if isinstance(reason, str) else "")
    return text, failures.from_report(response.get("error"))


def load_object(data: bytes) -> dict[str, Any]:
    """Parse one JSON object. Raise `MalformedError` for anything else: bad UTF-8, bad JSON, a list."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as refused:
        # Python accepts some JSON that orjson refuses, such as half a surrogate pair, whose other half may come next.
        # It would go as deep as the interpreter can, where destructors fail, too.
        if "depth" in refused.msg:
            raise MalformedError from refused
        try:
            value = json.loads(data.decode("utf-8-sig"))
        except (ValueError, RecursionError) as exc:
            raise MalformedError from exc
    if not isinstance(value, dict):
        raise MalformedError
    return value


def error_in_body(body: bytes) -> object:
    """The error in the body of an answer with a status of failure; plain text is one, a page is not."""
    text = body.decode("utf-8-sig", errors="replace").strip()
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


def text_of(content: object) -> str:
    """Return the text of a message's content, which some servers send as parts. Parts of other kinds are left out,
    such as the thinking of Mistral's models. Raise `MalformedError` for other types.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return text_in(content)
    parts = objects_in([{"text": part} if isinstance(part, str) else part for part in content])
    shown = [part for part in parts if part.get("type", "text") in TEXT_PARTS]
    return "".join(text_in(part.get("text")) + text_in(part.get("refusal")) for part in shown)


def object_in(value: object) -> dict[str, Any]:
    """Return an object field; null and absent are empty. Raise `MalformedError` for other types."""
    if not isinstance(value, dict | None):
        raise MalformedError
    return value or {}


def objects_in(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list field; other items and types are ignored."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def usage_in(value: object) -> Usage | None:
    """Token counts in either style's names; None unless input and output are present and possible.

    Some count the cached tokens beside the others, and thoughts in the total alone (xAI, Gemini).
    """
    sent = count_in(value, "input_tokens", "prompt_tokens")
    written = count_in(value, "output_tokens", "completion_tokens")
    if not isinstance(value, dict) or not sent or written is None:  # no prompt has no tokens
        return None
    details = value.get("input_tokens_details") or value.get("prompt_tokens_details")
    cached = count_in(details, "cached_tokens") or count_in(value, *CACHED_BESIDE) or 0
    return Usage(sent, min(cached, sent), max(written, (count_in(value, "total_tokens") or 0) - sent))


def count_in(counts: object, *names: str) -> int | None:
    """The first of these counts that is there and plausible."""
    found = [counts.get(name) for name in names] if isinstance(counts, dict) else []
    return next((one for one in found if type(one) is int and 0 <= one <= MAX_TOKENS), None)  # not a bool


def label_in(value: object, length: int) -> str:
    """A name from the upstream: one line of printable characters, of bounded length; empty for other types."""
    if not isinstance(value, str):
        return ""
    text = clean(value[: 4 * length])
    return (text if text.isprintable() else "".join(filter(str.isprintable, text))).strip()[:length]


def chat_error(finish_reason: str, *, refused: bool) -> ReplyError | None:
    """Why a chat completion is not complete, by its finish reason."""
    if finish_reason in STOPPED:
        return failures.REFUSED if refused else None
    return failures.ended_for(finish_reason)
