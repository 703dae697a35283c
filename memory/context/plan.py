"""The plan: what of memory one prompt shows, as a value that can be stored and rendered again; and its snapshot.

The plan holds everything that settings decided, so that the plan, the texts and `RENDERER` fully determine the prompt.
The snapshot is all that is stored of a prompt. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple
from uuid import UUID

from chatmemory.text.tokens import MESSAGE_OVERHEAD
from memory.limits import TurnsAs
from memory.pins.section import ShownPin
from memory.recall.excerpts import Quote
from memory.recall.ranking import Recall

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
        """The plan as a JSON object. What is as by default is left out, except in the first versions' fields."""
        values = {one.name: (getattr(self, one.name), one.default) for one in fields(self)}
        return {
            name: value
            for name, (value, default) in values.items()
            if name in _ALWAYS_STORED or (value != default and name != "free")
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """Return the plan that this or an older version stored. Raise `TypeError` for anything else."""
        stored = {one.name: data[one.name] for one in fields(cls) if one.name in data}
        return cls(**{name: _READ.get(name, _same)(value) for name, value in stored.items()})


_ALWAYS_STORED = frozenset(
    "renderer budget turns_as state merged lines verbatim sources unrepresented dropped anchor_seq".split()
)


def _same(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else value


_READ: Mapping[str, Callable[[Any], Any]] = {
    "merged": lambda merged: Merged(*merged) if merged else None,
    "lines": lambda spans: tuple(TurnSpan(*span) for span in spans),
    "verbatim": lambda turns: tuple(Shown(*shown) for shown in turns),
    "recalled": lambda days: tuple(tuple(Quote(*quote[:3]) for quote in quotes) for quotes in days),
    "recall": lambda recall: Recall(*recall) if recall else None,
    "pins": lambda pins: tuple(ShownPin(*pin) for pin in pins),
}
"""How fields with parts are read. An older version stored a fourth part of each quote."""


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
