"""The plan: what of memory one prompt shows, as a value that can be stored and rendered again; and its snapshot.

The plan holds everything that settings decided, so that the plan, the texts and `RENDERER` fully determine the prompt.
The snapshot is all that is stored of a prompt. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast
from uuid import UUID

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
    """Whether control tokens of models are broken up in text that is not ours (`chatmemory.text.cleaning`)."""
    open_turn: tuple[int, ...] = ()
    """Seqs of the messages that follow the question in its own turn, if that continues after tool calls."""
    open_clips: Clips = ()
    """The tokens that each of these messages keeps of its text; empty: all are whole."""
    attached: tuple[int, ...] = ()
    """First seqs of the turns in the window whose images and files are sent along."""
    free: int = field(default=0, compare=False)
    """Tokens that were available to excerpts. Not stored."""
    renderer: int = RENDERER

    @property
    def clipped(self) -> int:
        """Number of parts that are cut: turns, sections of state, sources, pins, steps of the open turn."""
        ends = sum(clip is not None for clip in (*self.state, *self.sources, *self.open_clips))
        pins = sum(pin.clip is not None for pin in self.pins)
        return ends + pins + sum(shown.clipped for shown in self.verbatim)

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


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a prompt. `tokens` are counted as rendered, including message overhead. The text is not stored."""

    kind: str
    tokens: int
    text: str = ""
    message_ids: tuple[UUID, ...] = ()
    clipped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What is stored of one prompt: how it is made of stored texts, its counts, and the hash that proves it."""

    revision: int
    """The version of the memory that was in use; 0: none."""
    policy: str
    plan: Plan
    sections: tuple[Section, ...]
    tokens: int
    """Tokens of memory in the prompt."""
    instructions_hash: str = ""
    """This and the next three are hashes of texts that are stored nowhere else (`ContextText`); "": there is none."""
    turn_instructions_hash: str = ""
    sources_hash: str = ""
    tools_hash: str = ""
    prompt_hash: str
    history_tokens: int | None = None
    """Tokens of the chat before the question; None if they were never counted."""
    anchor_before: int = 0
    """The brief's `anchor_seq` when the turn began."""
    again: bool = False
    """The question was answered before."""
    card_epoch: int | None = None
    """The brief's epoch when the turn began, if its reply is to bring a memory card; None: it is not."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the whole prompt, by our own count."""
        return sum(section.tokens for section in self.sections)

    def columns(self) -> dict[str, Any]:
        """The columns of the record of a finished reply (`ContextRecord`) that are known when the turn begins."""
        sections = [
            {
                "kind": section.kind,
                "tokens": section.tokens,
                "message_ids": [str(message_id) for message_id in section.message_ids],
                "clipped": section.clipped,
            }
            for section in self.sections
        ]
        return {
            "revision": self.revision,
            "policy": self.policy,
            "plan": self.plan.to_json(),
            "sections": sections,
            "tokens": self.tokens,
            "budget": self.plan.budget,
            "unrepresented": self.plan.unrepresented,
            "clipped": self.plan.clipped,
            "dropped": self.plan.dropped,
            **{name: getattr(self, name) for name in _HASHES},
        }

    def to_json(self) -> dict[str, Any]:
        """The snapshot as a JSON object, which is kept while the reply is being written."""
        card = {} if self.card_epoch is None else {"card_asked": "block", "epoch": self.card_epoch}
        turn = {"anchor_before": self.anchor_before, "again": self.again, "said": self.history_tokens}
        return self.columns() | turn | card

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Snapshot:
        """Return the snapshot that `to_json` or `columns` wrote. Raise `KeyError` or `TypeError` for anything else."""
        return cls(
            revision=data["revision"],
            policy=data["policy"],
            plan=Plan.from_json(data["plan"]),
            sections=tuple(
                Section(one["kind"], one["tokens"], "", tuple(map(UUID, one["message_ids"])), one["clipped"])
                for one in data["sections"]
            ),
            tokens=data["tokens"],
            **{name: data.get(name, "") for name in _HASHES},
            history_tokens=data.get("said"),
            anchor_before=data.get("anchor_before", 0),
            again=data.get("again", False),
            card_epoch=data["epoch"] if data.get("card_asked") else None,
        )


_HASHES = ("instructions_hash", "turn_instructions_hash", "sources_hash", "tools_hash", "prompt_hash")
