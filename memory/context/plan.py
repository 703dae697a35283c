"""The plan: what of memory one prompt shows, as a value that can be stored and rendered again; and its snapshot.

The plan holds everything that settings decided, so that the plan, the texts and `RENDERER` fully determine the prompt.
The snapshot is all that is stored of a prompt. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from pydantic import AliasChoices, BeforeValidator, Field, InstanceOf, TypeAdapter

from chatmemory.llm.protocol import PromptMessage
from memory.limits import TurnsAs
from memory.pins.section import ShownPin
from memory.recall.ranking import Quote, Recall

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


def _in_three_parts(quotes: Any) -> Any:
    """An older version stored a fourth part of each quote."""
    return [quote[:3] for quote in quotes]


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
    recalled: tuple[Annotated[tuple[Quote, ...], BeforeValidator(_in_three_parts)], ...] = ()
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

    @property
    def verbatim_seqs(self) -> frozenset[int]:
        """Seqs of all messages of the turns that are verbatim."""
        return frozenset(seq for one in self.verbatim for seq in range(one.from_seq, one.through_seq + 1))

    def to_json(self) -> dict[str, Any]:
        """The plan as a JSON object, without what is as by default."""
        stored = _PLAN.dump_python(self, mode="json", exclude={"free"}, exclude_defaults=True)
        return {**stored, "renderer": self.renderer}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """Return the plan that this or an older version stored. Raise `ValueError` for anything else."""
        return _PLAN.validate_python(data)


_PLAN = TypeAdapter(Plan)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a prompt. `tokens` are counted as rendered, including message overhead."""

    kind: str
    tokens: int
    text: str = ""
    """Not stored."""
    message_ids: tuple[UUID, ...] = ()
    clipped: bool = False
    messages: tuple[InstanceOf[PromptMessage], ...] = ()
    """The messages that contain it; none for instructions, tools and attachments. Not stored."""


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
    history_tokens: Annotated[int | None, Field(validation_alias=AliasChoices("history_tokens", "said"))] = (
        None
    )
    """Tokens of the chat before the question; None if they were never counted."""
    anchor_before: int = 0
    """The brief's `anchor_seq` when the turn began."""
    again: bool = False
    """The question was answered before."""
    card_epoch: Annotated[int | None, Field(validation_alias=AliasChoices("card_epoch", "epoch"))] = None
    """The brief's epoch when the turn began, if its reply is to bring a memory card; None: it is not."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the whole prompt, by our own count."""
        return sum(section.tokens for section in self.sections)

    def columns(self) -> dict[str, Any]:
        """The columns of the record of a finished reply (`ContextRecord`), except what became of its card."""
        plan = self.plan
        of_the_plan = {
            "budget": plan.budget,
            "unrepresented": plan.unrepresented,
            "clipped": plan.clipped,
            "dropped": plan.dropped,
        }
        stored = {name: value for name, value in self.to_json().items() if name not in _OF_THE_TURN}
        return stored | of_the_plan

    def to_json(self) -> dict[str, Any]:
        """The snapshot as a JSON object, which is kept while the reply is being written."""
        stored = _SNAPSHOT.dump_python(
            self, mode="json", exclude={"plan": True, "sections": {"__all__": {"text", "messages"}}}
        )
        return {**stored, "plan": self.plan.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Snapshot:
        """Return the snapshot that `to_json` or `columns` wrote, or an older version. Raise `ValueError` for others."""
        return _SNAPSHOT.validate_python(data)


_OF_THE_TURN = frozenset({"anchor_before", "again", "card_epoch"})
"""What is known only while the reply is being written."""
_SNAPSHOT = TypeAdapter(Snapshot)
