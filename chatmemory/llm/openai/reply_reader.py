"""Reads one streamed reply: takes chunks of bytes, returns clean text, and at the end one `Reply`. Pure.

Two limits apply to any upstream. The text is cut at `max_bytes` of UTF-8. All bytes together, including pings and
unknown events, are at most about `NOISE` times that: the events of both styles spend 100 to 350 bytes on a token.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from uuid import uuid4

from chatmemory.llm.openai import failures
from chatmemory.llm.openai.call_reader import MAX_CHARS
from chatmemory.llm.openai.stop_sequences import StopSequences
from chatmemory.llm.openai.stream_parser import StreamParser, Style, Terminal, parser_for
from chatmemory.llm.protocol import Reply, ReplyError, ReplyStatus, ToolCall
from chatmemory.text.cleaning import TextCleaner, clean, clip_bytes

NOISE = 256
# An upstream repeats the whole text in its last event, where JSON may take six bytes for one of ours.
EVENT_FACTOR = 6
EVENT_ROOM = 1024 * 1024


def max_event_bytes(max_bytes: int) -> int:
    """The length of the longest event that a reply of `max_bytes` of text can need."""
    return EVENT_FACTOR * max_bytes + EVENT_ROOM


class ReplyReader:
    """`feed` chunks until `is_over`, `fail` if the transport failed, `finish` for the last text, then `reply`.

    With `takes_calls`, the reply has the calls that the model made, except those of `own_tool`. Without, it has only
    the arguments of the last call: the prompt's only tool is ours then. With `stops`, the reply is complete before the
    first of them; the upstream is not read on.
    """

    def __init__(
        self,
        style: Style,
        *,
        terminal: Terminal,
        max_bytes: int,
        takes_calls: bool = False,
        own_tool: str = "",
        stops: Sequence[str] = (),
    ) -> None:
        longest = max_event_bytes(max_bytes)
        self._parser: StreamParser = parser_for(
            style,
            terminal=terminal,
            max_event_bytes=longest,
            max_call_chars=max_bytes if takes_calls else MAX_CHARS,
        )
        self._takes_calls = takes_calls
        self._own_tool = own_tool
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
        calls, own = ((), "") if is_stopped else self._calls()
        if not is_stopped and self._takes_calls and self._parser.calls.is_too_long:
            error = error or failures.TOO_LONG
        if not self._has_text and not calls and not is_stopped:
            error = error or failures.EMPTY_REPLY
        status: ReplyStatus = "complete"
        if error:
            status = "incomplete" if self._has_text else "failed"
        parser = self._parser
        kept = () if error else calls
        told = parser.model or model, parser.response_id
        return Reply(status, error, parser.usage, *told, own, kept)

    def _calls(self) -> tuple[tuple[ToolCall, ...], str]:
        """The calls of the client's tools, and the arguments of the last call of our own tool."""
        if not self._takes_calls:
            return (), clean(self._parser.calls.arguments)
        made = self._parser.calls.named
        own = [call.arguments for call in made if call.name == self._own_tool]
        return _with_ids(call for call in made if call.name != self._own_tool), own[-1] if own else ""

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
