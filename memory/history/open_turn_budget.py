"""Decide how much of an open turn is sent when its calls and outputs outgrow its budget. Pure.

Round by round, as the turn grew, so that each prompt of a turn begins like the one before: when the turn no longer
fits, the oldest texts are cut, at once so far that several more rounds fit, and stay so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from chatmemory.llm.protocol import CALL_OVERHEAD
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_repeated
from memory.history.turns import MARK_TOKENS, OUTPUT_TOKENS, Step


def fit_steps(steps: Sequence[Step], room: int) -> tuple[int | None, ...]:
    """Return the tokens of its text that each step keeps so that all fit into `room`. None: all; 0: it is left out.

    The newest outputs, which the model has not seen yet, come first. Older texts are cut to `OUTPUT_TOKENS`, then to a
    mark, the oldest first. Only if marks do not fit either, calls are left out, each together with its output.
    """
    fit = _Fit(steps)
    starts = [at for at, step in enumerate(steps) if at == 0 or step.role == "assistant"]
    for start, end in pairwise([*starts, len(steps)]):
        fit.add_round(start, end, room)
    return tuple(fit.clips)


class _Fit:
    """The steps so far, each with the tokens that it keeps."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.clips: list[int | None] = [None] * len(steps)
        self._steps = steps
        self._texts = [count_repeated(_text(step)) for step in steps]
        self._older = 0

    def add_round(self, start: int, end: int, room: int) -> None:
        """Add the steps of a reply with its calls and their outputs. Cut what no longer fits."""
        newest = self._cost(range(start, end))
        if self._older + newest > room:
            self._cut_older(start, max(room // 4, min(room // 2, room - newest)))
            self._cut_newest(start, end, room - self._older)
            self._leave_out(start, end, room)
        self._older += self._cost(range(start, end))

    def _cut_older(self, start: int, room: int) -> None:
        for clip in (OUTPUT_TOKENS, MARK_TOKENS):
            for at in range(start):
                if self._older <= room:
                    return
                if self.clips[at] != 0:
                    self._set(at, clip)

    def _cut_newest(self, start: int, end: int, room: int) -> None:
        ats = range(start, end)
        if self._cost(ats) > room:
            texts = self._texts[start:end]
            level = max(MARK_TOKENS, _level(texts, room - self._cost(ats) + sum(texts)))
            for at in ats:
                if self._texts[at] > level:
                    self.clips[at] = level

    def _leave_out(self, start: int, end: int, room: int) -> None:
        total = self._older + self._cost(range(start, end))
        for ats in self._oldest_first(start, end):
            if total <= room:
                break
            for at in ats:
                cost = self._cost([at])
                total -= cost
                self._older -= cost if at < start else 0
                self.clips[at] = 0

    def _oldest_first(self, start: int, end: int) -> Iterator[list[int]]:
        """Yield what can be left out together: the rounds before `start`, then pairs of a call and its output."""
        starts = [at for at in range(start) if at == 0 or self._steps[at].role == "assistant"]
        yield from (list(range(low, high)) for low, high in pairwise([*starts, start]))
        calls: dict[str, int] = {}
        for at in range(start, end):
            call_id = (self._steps[at].payload or {}).get("call_id", "")
            if self._steps[at].role == "tool_call":
                calls[call_id] = at
            elif call_id in calls:
                yield [calls[call_id], at]

    def _set(self, at: int, clip: int) -> None:
        """Cut an older step, unless it is shorter already."""
        if clip < self._kept(at):
            before = self._cost([at])
            self.clips[at] = clip
            self._older += self._cost([at]) - before

    def _kept(self, at: int) -> int:
        clip = self.clips[at]
        return self._texts[at] if clip is None else min(self._texts[at], clip)

    def _cost(self, ats: Iterable[int]) -> int:
        return sum(_fixed(self._steps[at]) + self._kept(at) for at in ats if self.clips[at] != 0)


def _level(sizes: Sequence[int], room: int) -> int:
    """The highest number of tokens to which all texts of `sizes` can be cut so that they fit into `room`."""
    left = max(0, room)
    for done, size in enumerate(sorted(sizes)):
        if size > left // (len(sizes) - done):
            return left // (len(sizes) - done)
        left -= size
    return max(sizes, default=0)


def _text(step: Step) -> str:
    """The part of a step that can be cut."""
    return str((step.payload or {}).get("arguments", "")) if step.role == "tool_call" else step.content


def _fixed(step: Step) -> int:
    """The tokens of a step without that part."""
    if step.role == "tool_call":
        return count_repeated(str((step.payload or {}).get("name", ""))) + CALL_OVERHEAD
    return MESSAGE_OVERHEAD
