"""The plan: what of memory one prompt shows, as a value that can be stored and rendered again.

It holds everything that settings decided, so that the plan, the texts and `RENDERER` fully determine the prompt.
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

RENDERER = 11
"""Version of the rendering. Raise it with any change that renders the same plan differently."""


class TurnSpan(NamedTuple):
    """The seqs of one turn, both ends included."""

    from_seq: int
    through_seq: int


class Merged(NamedTuple):
    """The turns that the merged line replaces: their span and their number."""

    from_seq: int
    through_seq: int
    turns: int


class Shown(NamedTuple):
    """A turn that is sent verbatim. A clip is the tokens to which a side is cut in its middle; None: whole."""

    from_seq: int
    through_seq: int
    user_clip: int | None = None
    assistant_clip: int | None = None

    @property
    def clipped(self) -> bool:
        """True if either side is cut."""
        return self.user_clip is not None or self.assistant_clip is not None


Clips = tuple[int | None, ...]
"""One entry per section or source: the number of tokens to which its end is cut; None: whole; 0: left out."""


MIN_SECTION = 32
"""Tokens below which a clipped section of state would be little more than its heading."""


def clip_state(sections: Sequence[int], room: int) -> tuple[Clips, int]:
    """Distribute `room` tokens over the sections in order; return the clips and how many tokens were spent.

    A section that does not fit is clipped to what is left, or left out if that is less than `MIN_SECTION`. Later ones
    get the rest.
    """
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
    """What a prompt shows of memory. Spans are in order of seq; no turn is shown both as a line and verbatim."""

    budget: int
    turns_as: TurnsAs = "messages"
    state: Clips = ()
    merged: Merged | None = None
    lines: tuple[TurnSpan, ...] = ()
    line_tokens: int = 0
    """Tokens to which each line is cut to make room for excerpts; 0: lines are not cut."""
    verbatim: tuple[Shown, ...] = ()
    recalled: tuple[tuple[Quote, ...], ...] = ()
    """Excerpts of earlier messages, in order, grouped by day. Lines of the same turns may be shown, too."""
    recall: Recall | None = None
    """Why these excerpts were chosen, or none; None: unknown, for a prompt made by an older version."""
    sources: Clips = ()
    unrepresented: int = 0
    """Finished turns that appear neither as text nor as a line, whether or not recall quotes one of them."""
    dropped: int = 0
    """Turns of the window that are not verbatim, for lack of room."""
    anchor_seq: int = 0
    """Seq at which the verbatim part begins. Pass it to the next plan, which keeps it as long as possible."""
    outline_of: str = ""
    """Id of the reply whose outline is shown after the state; "": no outline."""
    pins: tuple[ShownPin, ...] = ()
    """Pins that are shown, newest first."""
    pins_left_out: int = 0
    """Pins that hold but have no room."""
    disarms: bool = False
    """Whether control tokens of models are broken up in text that is not ours (`chatmemory.text.control_tokens`)."""
    open_turn: tuple[int, ...] = ()
    """Seqs of the messages that follow the question in its own turn, if that continues after tool calls."""
    open_clips: Clips = ()
    """The tokens that each of these messages keeps of its text; empty: all are whole."""
    attached: tuple[int, ...] = ()
    """First seqs of the turns in the window whose images and files are sent along."""
    free: int = field(default=0, compare=False)
    """Tokens that were available to excerpts. Not stored."""
    renderer: int = RENDERER

    def to_json(self) -> dict[str, Any]:
        """The plan as a JSON object."""
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
                {"recalled": [[list(quote) for quote in quotes] for quotes in self.recalled]}
                if self.recalled
                else {}
            ),
            **({"recall": list(self.recall)} if self.recall else {}),
            "sources": list(self.sources),
            "unrepresented": self.unrepresented,
            "dropped": self.dropped,
            "anchor_seq": self.anchor_seq,
            **({"outline_of": self.outline_of} if self.outline_of else {}),
            **({"pins": [list(pin) for pin in self.pins]} if self.pins else {}),
            **({"pins_left_out": self.pins_left_out} if self.pins_left_out else {}),
            **({"disarms": True} if self.disarms else {}),
            **({"open_turn": list(self.open_turn)} if self.open_turn else {}),
            **({"open_clips": list(self.open_clips)} if self.open_clips else {}),
            **({"attached": list(self.attached)} if self.attached else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """Return the plan that `to_json` wrote. Raise `KeyError` or `TypeError` for anything else."""
        return cls(
            renderer=data["renderer"],
            budget=data["budget"],
            turns_as=cast(TurnsAs, data["turns_as"]),
            state=tuple(data["state"]),
            merged=Merged(*data["merged"]) if data["merged"] else None,
            lines=tuple(TurnSpan(*span) for span in data["lines"]),
            line_tokens=data.get("line_tokens", 0),
            verbatim=tuple(Shown(*shown) for shown in data["verbatim"]),
            recalled=tuple(
                tuple(Quote(*quote[:3]) for quote in quotes) for quotes in data.get("recalled", ())
            ),
            recall=Recall(*data["recall"]) if data.get("recall") else None,
            sources=tuple(data["sources"]),
            unrepresented=data["unrepresented"],
            dropped=data["dropped"],
            anchor_seq=data["anchor_seq"],
            outline_of=data.get("outline_of", ""),
            pins=tuple(ShownPin(*pin) for pin in data.get("pins", ())),
            pins_left_out=data.get("pins_left_out", 0),
            disarms=data.get("disarms", False),
            open_turn=tuple(data.get("open_turn", ())),
            open_clips=tuple(data.get("open_clips", ())),
            attached=tuple(data.get("attached", ())),
        )
