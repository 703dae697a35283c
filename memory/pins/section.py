"""The section of a prompt that holds the pins: which fit, how they are rendered, what they cost. Pure.

Newest first, within a tenth of the budget. A pin's text is user input, so a line that looks like one of our markers
is quoted. The number of pins without room is stated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, NamedTuple

from pydantic import AwareDatetime, Field, Strict, StringConstraints

from chatmemory.text.cleaning import disarm
from chatmemory.text.markers import PINS_HEADING, quote_markers
from chatmemory.text.tokens import MESSAGE_OVERHEAD, clip_end, count_tokens, heading_cost

BUDGET_DIVISOR = 10
"""Pins may have one part in so many of the budget."""
CARD_TOKENS = 60
"""Maximum tokens of pins under the policy `card`, whose whole prompt is small."""
MIN_CLIP = 16
"""Tokens below which a pin that is cut would say nothing."""
CUT = " […]"
"""Marks where a pin was cut."""


class ShownPin(NamedTuple):
    """A pin in a prompt. `clip` is the number of tokens to which its text is cut; None: it is whole."""

    id: str
    clip: int | None = None


@dataclass(frozen=True, slots=True)
class PinText:
    """A pin that holds."""

    id: str
    text: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class PinSection:
    """The pins that a prompt shows. `tokens` are those of the section as it is sent."""

    shown: tuple[ShownPin, ...] = ()
    left_out: int = 0
    texts: Mapping[str, str] | None = None
    tokens: int = 0

    @property
    def not_whole(self) -> frozenset[str]:
        """The ids of the pins that are not shown, or only in part."""
        return frozenset(self.texts or ()) - {pin.id for pin in self.shown if pin.clip is None}


NO_PINS = PinSection()


def fit_pins(pins: Sequence[PinText], room: int, *, disarms: bool = False) -> PinSection:
    """Fit `pins` (newest first) into a section of `room` tokens. The section is empty if not even one has room."""
    texts = {pin.id: pin.text for pin in pins}
    shown: list[ShownPin] = []
    left = room - heading_cost(PINS_HEADING) - (count_tokens(_left_out(len(pins))) + 1 if len(pins) > 1 else 0)
    for number, pin in enumerate(pins):
        is_last = number == len(pins) - 1
        share = left if is_last else min(left, max(left // 2, room // 3))  # leaves room for others
        if (cost := pin_cost(pin.text)) <= share:
            shown.append(ShownPin(pin.id))
            left -= cost
        elif (clip := share - pin_cost(CUT)) >= MIN_CLIP:
            shown.append(ShownPin(pin.id, clip))
            left -= share
    while shown:  # joined text can cost more than its parts
        left_out = len(pins) - len(shown)
        text = render_pins(shown, left_out, texts)
        tokens = count_tokens(disarm(text) if disarms else text) + MESSAGE_OVERHEAD
        if tokens <= room:
            return PinSection(tuple(shown), left_out, texts, tokens)
        shown.pop()
    return NO_PINS


def render_pins(shown: Sequence[ShownPin], left_out: int, texts: Mapping[str, str]) -> str:
    """Render the message that contains the pins; "" if none of them exists any more."""
    lines = [_line(texts[pin.id], pin.clip) for pin in shown if pin.id in texts]
    if not lines:
        return ""
    return "\n".join([PINS_HEADING, *lines, *([_left_out(left_out)] if left_out else [])])


def _line(text: str, clip: int | None = None) -> str:
    """One pin as a list item; its further lines are indented."""
    quoted = quote_markers(text.strip())
    if clip is not None:
        quoted = clip_end(quoted, clip) + CUT
    return "- " + "\n  ".join(quoted.splitlines())


def _left_out(number: int) -> str:
    return f"({number} more {'is' if number == 1 else 'are'} not shown here.)"


def pin_cost(text: str) -> int:
    """Tokens of one pin with its bullet and its newline."""
    return count_tokens(_line(text)) + 1


@dataclass(frozen=True, slots=True)
class ImportedPin:
    """A pin of an export, which may have ended. Messages are named by their number in the chat, from 1."""

    text: Annotated[str, StringConstraints(pattern=r"\S")]
    kind: Annotated[str, StringConstraints(pattern="^(instruction|preference|identity|remember|pinned)$")] = "pinned"
    by: Annotated[str, StringConstraints(pattern="^(user|staff|rule|summarizer)$")] = "user"
    message: int | None = None
    """The message that it was found in, or that was pinned."""
    seq: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    """Number of the last message when it was pinned; 0 before any message."""
    start: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    """Its offset in that message."""
    created_at: AwareDatetime | None = None
    ended_at: AwareDatetime | None = None
    ended_by: int | None = None
    """The message of its chat that replaced it or took it back."""
    scope: Annotated[str, StringConstraints(pattern="^(chat|project|person)$")] = "chat"
    muted: Annotated[bool, Strict()] = False
