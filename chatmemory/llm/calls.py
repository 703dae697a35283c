"""The call of a tool as it comes in a stream: its arguments, piece by piece. Pure.

A prompt has one tool at most, so the last call is the one that counts, whatever its name. A call informs; nothing that
is wrong with one ends a reply.
"""

from __future__ import annotations

from typing import Any

MAX_CHARS = 65_536
"""Of the arguments, what is kept: what is longer is no call that anybody asked for."""


class CallReader:
    """Collects the arguments of the last call that begins."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._room = MAX_CHARS
        self._key: tuple[object, object] = (None, None)

    @property
    def arguments(self) -> str:
        """The arguments so far, uncleaned; "" without a call."""
        return "".join(self._parts)

    def begin(self) -> None:
        """Another call begins."""
        self._parts, self._room = [], MAX_CHARS

    def add(self, piece: object) -> None:
        """The next piece of the arguments."""
        text = piece[: self._room] if isinstance(piece, str) else ""
        self._parts.append(text)
        self._room -= len(text)

    def replace(self, arguments: object) -> None:
        """The arguments of the call as a whole, which an upstream repeats at its end."""
        if isinstance(arguments, str) and arguments:
            self.begin()
            self.add(arguments)

    def add_chat_part(self, part: dict[str, Any]) -> None:
        """One entry of `delta.tool_calls`: a call is told apart by its index, or by its id, which comes but once."""
        index, name = part.get("index"), part.get("id") or self._key[1]
        if (index, name) != self._key:
            self.begin()
            self._key = (index, name)
        function = part.get("function")
        self.add(function.get("arguments") if isinstance(function, dict) else None)
