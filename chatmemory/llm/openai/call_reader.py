"""Reads streamed function calls: takes pieces and returns whole calls. Pure; malformed calls raise no errors."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from chatmemory.llm.protocol import ToolCall
from chatmemory.text.cleaning import clean

MAX_CHARS = 65_536
"""Maximum characters kept of the arguments of one call, unless the client's own tools are called."""
MAX_CALLS = 128
"""Maximum number of calls in one reply. With more, the reply counts as too long, and has none."""
CUSTOM = "custom_tool_call"
"""The Responses API's item type for a call of a custom tool, whose `input` is any text."""
MAX_NAME_CHARS = 256
"""Maximum length of an id or a name, in characters."""
MAX_EXTRA_CHARS = 65_536
"""Maximum length of what comes with a call, as JSON."""


@dataclass(slots=True)
class _StreamedCall:
    id: str = ""
    name: str = ""
    is_custom: bool = False
    extra: str = ""
    parts: list[str] = field(default_factory=list)


class CallReader:
    """Collects calls in the order in which they begin. Their arguments have at most `max_chars` characters together."""

    def __init__(self, max_chars: int = MAX_CHARS) -> None:
        self._calls: list[_StreamedCall] = []
        self._by_index: dict[int | None, _StreamedCall] = {}
        self._max = self._room = max_chars

    @property
    def arguments(self) -> str:
        """The arguments of the last call, uncleaned; empty without a call."""
        return "".join(self._calls[-1].parts) if self._calls else ""

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
                self._room += len(self.arguments)
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
