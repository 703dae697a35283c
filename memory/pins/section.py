"""The section of a prompt that holds the pins: which fit, how they read, what it costs. Pure.

Newest first, within a tenth of the budget. A pin's text is what people said: a line of it that looks like a marker of
ours is quoted. One that is part of a newer one is not said again, and of what has no room the number is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import NamedTuple

from chatmemory.text.control_tokens import disarm
from chatmemory.text.markers import PINS_HEADING, quote_markers
from chatmemory.text.tokens import MESSAGE_OVERHEAD, clip_end, count_tokens

SHARE = 10
"""The part of the budget that pins may have: one in so many."""
CARD_TOKENS = 60
"""Under the policy `card`, at most so many: its whole prompt is small."""
LEAST = 16
"""Tokens below which a pin that is cut would say nothing."""
CUT = " […]"
"""Stands where a pin goes on."""


class ShownPin(NamedTuple):
    """A pin in a prompt. `clip` is the tokens that its text is cut to; None: it is whole."""

    id: str
    clip: int | None = None


@dataclass(frozen=True, slots=True)
class PinText:
    """A pin that holds."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class PinSection:
    """What of the pins a prompt shows. `tokens` are those of the section as it is sent."""

    shown: tuple[ShownPin, ...] = ()
    left_out: int = 0
    texts: Mapping[str, str] | None = None
    tokens: int = 0


NO_PINS = PinSection()


def room_for_pins(budget: int, *, is_card: bool) -> int:
    """The most tokens that the section may have."""
    tenth = budget // SHARE
    return min(tenth, CARD_TOKENS) if is_card else tenth


def fit_pins(pins: Sequence[PinText], room: int, *, disarms: bool = False) -> PinSection:
    """The section for `pins`, the newest first, in `room` tokens. Nothing, where not one has room."""
    own = _without_repeats(pins)
    texts = {pin.id: pin.text for pin in own}
    shown: list[ShownPin] = []
    left = room - head_cost() - left_out_cost(len(own))
    for number, pin in enumerate(own):
        most = left if number == len(own) - 1 else max(left // 2, room // 3)  # one leaves room for others
        cost = pin_cost(pin.text)
        if cost <= min(left, most):
            shown.append(ShownPin(pin.id))
            left -= cost
        elif (clip := min(left, most) - pin_cost(CUT)) >= LEAST:
            shown.append(ShownPin(pin.id, clip))
            left -= min(left, most)
    return _fitting(shown, len(own), texts, room, disarms)


def _fitting(
    shown: list[ShownPin], pins: int, texts: Mapping[str, str], room: int, disarms: bool
) -> PinSection:
    """The section of as many of `shown` as fit once they are joined: that can cost more than the parts."""
    while shown:
        text = render_pins(shown, pins - len(shown), texts)
        tokens = count_tokens(disarm(text) if disarms else text) + MESSAGE_OVERHEAD
        if tokens <= room:
            return PinSection(tuple(shown), pins - len(shown), texts, tokens)
        shown.pop()
    return NO_PINS


def _without_repeats(pins: Sequence[PinText]) -> list[PinText]:
    """`pins` without those that a newer one says, too."""
    own: list[PinText] = []
    for pin in pins:
        if not any(" ".join(pin.text.split()) in " ".join(newer.text.split()) for newer in own):
            own.append(pin)
    return own


def render_pins(shown: Sequence[ShownPin], left_out: int, texts: Mapping[str, str]) -> str:
    """The message that carries the pins, or "" where none of them is there any more."""
    lines = [_line(texts[pin.id], pin.clip) for pin in shown if pin.id in texts]
    if not lines:
        return ""
    return "\n".join([PINS_HEADING, *lines, *([_left_out(left_out)] if left_out else [])])


def _line(text: str, clip: int | None = None) -> str:
    """One pin as an item of a list; its other lines are indented."""
    quoted = quote_markers(text.strip())
    if clip is not None:
        quoted = clip_end(quoted, clip) + CUT
    return "- " + "\n  ".join(quoted.splitlines())


def _left_out(number: int) -> str:
    return f"({number} more {'is' if number == 1 else 'are'} not shown here.)"


def pin_cost(text: str) -> int:
    """Tokens of one pin with its bullet and its newline."""
    return count_tokens(_line(text)) + 1


def left_out_cost(pins: int) -> int:
    """Tokens of the line that says how many of so many pins are not shown."""
    return count_tokens(_left_out(pins)) + 1 if pins > 1 else 0


@cache
def head_cost() -> int:
    """Tokens of the message around the pins."""
    return count_tokens(PINS_HEADING) + 1 + MESSAGE_OVERHEAD


@dataclass(frozen=True, slots=True)
class ImportedPin:
    """Something that is to stand in every prompt, or once was."""

    text: str
    kind: str
    by: str
    """Who pinned it: `user`, `staff`, `rule` or `summarizer`."""
    message: int | None
    """Index of the message that it was found in, or that was pinned."""
    seq: int
    """Number of the last message when it was pinned, from 1; 0 before any."""
    start: int
    """Its place in that."""
    created_at: datetime | None = None
    ended_at: datetime | None = None
    ended_by: int | None = None
    """Index of the message that replaced it or took it back."""


def clipped(text: str, limit: int) -> str:
    """`text` without white space around it, cut to `limit` characters after a word."""
    text = text.strip()
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    return (cut.rpartition(" ")[0].rstrip() or cut) + "…"
