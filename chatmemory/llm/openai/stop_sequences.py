"""Ends a text that arrives in deltas before the first of some stop sequences, for APIs that have none. Pure."""

from __future__ import annotations

from collections.abc import Sequence


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
