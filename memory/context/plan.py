"""A plan: what of memory one prompt shows, as a value that can be stored and rendered again.

It holds everything that settings decided, so that the prompt follows from the plan, the texts and `RENDERER` alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from chatmemory.text.tokens import MESSAGE_OVERHEAD
from memory.limits import TurnsAs
from memory.pins.section import ShownPin
from memory.recall.decision import Recall
from memory.recall.excerpts import Quote

RENDERER = 9
"""Version of the rendering. Raise it with any change that gives another text for the same plan."""


class TurnSpan(NamedTuple):
    """The seqs of one turn, both ends included."""

    from_seq: int
    through_seq: int


class Merged(NamedTuple):
    """The turns that one merged line stands for: where they lie, and how many."""

    from_seq: int
    through_seq: int
    turns: int


class Shown(NamedTuple):
    """A turn that is sent verbatim. A clip is the tokens that a side is cut to in its middle; None: whole."""

    from_seq: int
    through_seq: int
    user_clip: int | None = None
    assistant_clip: int | None = None

    @property
    def clipped(self) -> bool:
        """True if a side is not whole."""
        return self.user_clip is not None or self.assistant_clip is not None


Clips = tuple[int | None, ...]
"""One a section or source: the tokens it is cut to at its end; None: whole; 0: left out."""


MIN_SECTION = 32
"""Tokens below which a clipped section of state would be little more than its heading."""


def clip_state(sections: Sequence[int], room: int) -> tuple[Clips, int]:
    """Give `room` to the sections in their order; the first that does not fit is clipped, later ones get
    the rest. Also how much of `room` was spent."""
    clips: list[int | None] = []
    left = max(0, room)
    for tokens in sections:
        if tokens <= left:
            clips.append(None)
            left -= tokens
        elif left >= MIN_SECTION:
            clips.append(left - MESSAGE_OVERHEAD)
            left = 0
        else:
            clips.append(0)
    return tuple(clips), max(0, room) - left


@dataclass(frozen=True, slots=True)
class Plan:
    """What a prompt shows of memory. Spans are in order of seq; no turn is in two places."""

    budget: int
    turns_as: TurnsAs = "messages"
    state: Clips = ()
    merged: Merged | None = None
    lines: tuple[TurnSpan, ...] = ()
    line_tokens: int = 0
    """What each line is cut to, in favour of excerpts; 0: none is."""
    verbatim: tuple[Shown, ...] = ()
    recalled: tuple[tuple[Quote, ...], ...] = ()
    """Excerpts of earlier messages, in order, those of one day together. Their turns' lines may be shown, too."""
    recall: Recall | None = None
    """Why these, or none; None: not known, as of a prompt that an older version made."""
    sources: Clips = ()
    unrepresented: int = 0
    """Finished turns that neither text nor line stands for: left to recall, also where that brought one back."""
    dropped: int = 0
    """Turns of the window that are not verbatim, for want of room."""
    anchor_seq: int = 0
    """Where the verbatim part begins: to be given to the next plan, which keeps it as long as it can."""
    outline_of: str = ""
    """Id of the reply whose outline is shown after the state; "": none."""
    card_tool_tokens: int = 0
    """What the tool for memory cards says a card may have (`tool_of` of the policy `card`); 0: no tool was sent."""
    pins: tuple[ShownPin, ...] = ()
    """Pins that are shown, the newest first."""
    pins_left_out: int = 0
    """Pins that hold, but have no room."""
    disarms: bool = False
    """Control tokens of models are broken in all that is not ours (`chatmemory.text.control_tokens`)."""
    open_turn: tuple[int, ...] = ()
    """The messages of the question's own turn that follow it, where that goes on after calls of tools."""
    attached: tuple[int, ...] = ()
    """Turns (by their first seq) of the window whose images and files are sent along."""
    free: int = field(default=0, compare=False)
    """Tokens that excerpts could have had. Not stored."""
    renderer: int = RENDERER

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON holds it."""
        return {
            "renderer": self.renderer,
            "budget": self.budget,
            "turns_as": self.turns_as,
            "state": list(self.state),
            "merged": list(self.merged) if self.merged else None,
            "lines": [list(span) for span in self.lines],
            **({"line_tokens": self.line_tokens} if self.line_tokens else {}),
            "verbatim": [list(shown) for shown in self.verbatim],
            **(
                {"recalled": [[_stored(quote) for quote in quotes] for quotes in self.recalled]}
                if self.recalled
                else {}
            ),
            **({"recall": list(self.recall)} if self.recall else {}),
            "sources": list(self.sources),
            "unrepresented": self.unrepresented,
            "dropped": self.dropped,
            "anchor_seq": self.anchor_seq,
            **({"outline_of": self.outline_of} if self.outline_of else {}),
            **({"card_tool_tokens": self.card_tool_tokens} if self.card_tool_tokens else {}),
            **({"pins": [list(pin) for pin in self.pins]} if self.pins else {}),
            **({"pins_left_out": self.pins_left_out} if self.pins_left_out else {}),
            **({"disarms": True} if self.disarms else {}),
            **({"open_turn": list(self.open_turn)} if self.open_turn else {}),
            **({"attached": list(self.attached)} if self.attached else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """The plan that `to_json` wrote. Raises `KeyError` or `TypeError` on anything else."""
        return cls(
            renderer=data["renderer"],
            budget=data["budget"],
            turns_as=cast(TurnsAs, data["turns_as"]),
            state=tuple(data["state"]),
            merged=Merged(*data["merged"]) if data["merged"] else None,
            lines=tuple(TurnSpan(*span) for span in data["lines"]),
            line_tokens=data.get("line_tokens", 0),
            verbatim=tuple(Shown(*shown) for shown in data["verbatim"]),
            recalled=tuple(tuple(Quote(*quote) for quote in quotes) for quotes in data.get("recalled", ())),
            recall=Recall(*data["recall"]) if data.get("recall") else None,
            sources=tuple(data["sources"]),
            unrepresented=data["unrepresented"],
            dropped=data["dropped"],
            anchor_seq=data["anchor_seq"],
            outline_of=data.get("outline_of", ""),
            card_tool_tokens=data.get("card_tool_tokens", 0),
            pins=tuple(ShownPin(*pin) for pin in data.get("pins", ())),
            pins_left_out=data.get("pins_left_out", 0),
            disarms=data.get("disarms", False),
            open_turn=tuple(data.get("open_turn", ())),
            attached=tuple(data.get("attached", ())),
        )


def _stored(quote: Quote) -> list[int | None]:
    """Few excerpts are updated: most are stored without a place for it."""
    return list(quote if quote.updated_in is not None else quote[:3])
