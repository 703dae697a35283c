"""A recorded conversation as the lab plays it: questions, replies, and the facts said in them. Pure.

Several messages of one side in a row count as one. A last question without a reply is left out, as no later prompt
depends on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from chatmemory.llm.openai.requests import chat_call
from chatmemory.llm.protocol import PromptMessage, ToolCall
from chatmemory.runtime.escape import plain
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_tokens
from conversations.interchange.assemble import TOOL_MESSAGES
from conversations.interchange.messages import CALLS
from conversations.interchange.read import ImportedChat, ImportedMessage
from memory.history.tool_steps import Step, is_whole

CUT_OFF = ("incomplete", "cancelled")


@dataclass(frozen=True, slots=True)
class Round:
    """What the assistant said and called on the way to its reply, and the output of the tools."""

    said: str
    calls: tuple[ToolCall, ...]
    outputs: tuple[tuple[str, str], ...]
    """Pairs of a call's id and its output."""

    @property
    def text(self) -> str:
        """The whole text, for searching."""
        parts = (self.said, *(call.text for call in self.calls), *(output for _, output in self.outputs))
        return "\n".join(filter(None, parts))

    @property
    def tokens(self) -> int:
        """Tokens of what a model is sent of it afterwards."""
        calling = PromptMessage("assistant", self.said, self.calls).tokens(count_tokens)
        return calling + sum(count_tokens(output) + MESSAGE_OVERHEAD for _, output in self.outputs)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Round:
        """The round with these JSON values."""
        calls = tuple(ToolCall(**one) for one in data["calls"])
        return cls(data["said"], calls, tuple((call_id, output) for call_id, output in data["outputs"]))


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its reply. `tool_tokens` counts tool messages recorded with them that cannot be played again."""

    question: str
    reply: str
    cut_off: bool = False
    tool_tokens: int = 0
    rounds: tuple[Round, ...] = ()
    """The rounds of tool calls before the reply."""

    @property
    def text(self) -> str:
        """The whole text, for searching."""
        return "\n".join((self.question, *(one.text for one in self.rounds), self.reply))


@dataclass(frozen=True, slots=True)
class KnownFact:
    """An annotated value, its written forms, and the exchanges (from 0) that say it: none if only tools did."""

    canonical: str
    surface: tuple[str, ...]
    exchanges: tuple[int, ...]

    @property
    def key(self) -> str:
        """An identifier of the value, regardless of how it was written."""
        return self.canonical.casefold()


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation, ready to be played."""

    name: str
    instructions: str
    exchanges: tuple[Exchange, ...]
    facts: tuple[KnownFact, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The talk as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Conversation:
        """The talk that `to_json` wrote."""
        exchanges = tuple(
            Exchange(**{**one, "rounds": tuple(Round.of(each) for each in one.get("rounds", ()))})
            for one in data["exchanges"]
        )
        facts = tuple(
            KnownFact(one["canonical"], tuple(one["surface"]), tuple(one["exchanges"]))
            for one in data["facts"]
        )
        return cls(data["name"], data["instructions"], exchanges, facts)


@dataclass(slots=True)
class _Open:
    """An exchange that is being assembled."""

    said: dict[str, list[str]]
    cut_off: bool = False
    tool_tokens: int = 0
    steps: list[Step] = field(default_factory=list)
    """Everything except the question, in order."""

    def add(self, message: ImportedMessage) -> None:
        if message.role != "user":
            self.steps.append(Step(message.role, message.content, message.payload))
        if message.role in ("tool_call", "tool"):
            return
        if message.content.strip():
            self.said[message.role].append(message.content)
        self.cut_off = message.status in CUT_OFF
        self.tool_tokens += _tool_tokens(message.metadata)

    def closed(self) -> Exchange:
        question, reply = ("\n\n".join(self.said[role]) for role in ("user", "assistant"))
        rounds, last = _rounds(self.steps)
        if rounds and last:
            return Exchange(question, last, self.cut_off, self.tool_tokens, tuple(rounds))
        return Exchange(question, reply, self.cut_off, self.tool_tokens + sum(map(_step_tokens, self.steps)))


def _rounds(steps: Sequence[Step]) -> tuple[list[Round], str]:
    """Split the steps of a turn into rounds with tools, and the reply after them; ([], "") if a call has no output."""
    if not is_whole(steps):
        return [], ""
    rounds: list[Round] = []
    said: list[str] = []
    for step in steps:
        payload = step.payload or {}
        last = rounds[-1] if rounds and not said else None
        if step.role == "assistant":
            if step.content.strip():
                said.append(step.content)
        elif step.role == "tool_call" and (last is None or last.outputs):
            rounds.append(Round("\n\n".join(said), (ToolCall.of(payload),), ()))
            said = []
        elif last is not None and step.role == "tool_call":
            rounds[-1] = replace(last, calls=(*last.calls, ToolCall.of(payload)))
        elif last is not None:
            rounds[-1] = replace(last, outputs=(*last.outputs, (payload["call_id"], step.content)))
    return rounds, "\n\n".join(said)


def _step_tokens(step: Step) -> int:
    """Tokens of a call or an output that cannot be played again, as it would be sent."""
    if step.role == "assistant":
        return 0
    is_call = step.role == "tool_call" and step.payload
    text = json.dumps([chat_call(ToolCall.of(step.payload or {}))]) if is_call else step.content
    return count_tokens(text) + MESSAGE_OVERHEAD


def talk_of(chat: ImportedChat, name: str) -> Conversation:
    """Convert a conversation from a file. A greeting before the first question is left out."""
    exchanges: list[_Open] = []
    places: dict[int, int] = {}
    for message in _spoken(chat.messages):
        if message.role == "user" and (not exchanges or exchanges[-1].said["assistant"]):
            exchanges.append(_Open({"user": [], "assistant": []}))
        if exchanges:
            exchanges[-1].add(message)
            places[message.number - 1] = len(exchanges) - 1
    if exchanges and not exchanges[-1].said["assistant"]:
        exchanges.pop()
    closed = tuple(one.closed() for one in exchanges)
    places = {number: at for number, at in places.items() if at < len(closed)}
    return Conversation(name, chat.instructions, closed, tuple(_facts(chat.facts, places)))


def name_of(chat: ImportedChat, otherwise: str) -> str:
    """A name for a conversation, on one line: the title it came with, its id in the file, or else `otherwise`."""
    given = "" if chat.title_is_automatic else chat.title
    return plain(given or str(chat.metadata.get("source_id", "")) or otherwise)


def _spoken(messages: Sequence[ImportedMessage]) -> Iterator[ImportedMessage]:
    """Yield the messages that have content and were not failed, deleted or replaced by another answer."""
    for message in messages:
        gone = message.status in ("failed", "deleted") or message.superseded_by is not None
        if (message.content.strip() or message.payload) and not gone:
            yield message


def _facts(annotated: Sequence[object], places: Mapping[int, int]) -> Iterator[KnownFact]:
    """Yield the annotated values, each once; annotations of another shape are ignored."""
    surface: dict[str, list[str]] = {}
    said_in: dict[str, set[int]] = {}
    for one in annotated:
        canonical, forms, messages = _annotation(one)
        if canonical:
            said = {places[number] for number in messages if number in places}
            surface.setdefault(canonical.casefold(), [canonical]).extend(forms)
            said_in.setdefault(canonical.casefold(), set()).update(said)
    for key, exchanges in said_in.items():
        canonical, *forms = surface[key]
        yield KnownFact(canonical, tuple(dict.fromkeys(forms or [canonical])), tuple(sorted(exchanges)))


def _annotation(one: object) -> tuple[str, list[str], list[int]]:
    """Canonical form, written forms and message numbers (from 0) of an annotation; empty values if they are missing."""
    value = one if isinstance(one, dict) else {}
    canonical, surface, messages = (value.get(name) for name in ("canonical", "surface", "messages"))
    return (
        canonical.strip() if isinstance(canonical, str) else "",
        [form for form in surface if isinstance(form, str) and form.strip()]
        if isinstance(surface, list)
        else [],
        [number for number in messages if isinstance(number, int)] if isinstance(messages, list) else [],
    )


def _tool_tokens(metadata: Mapping[str, object]) -> int:
    """Tokens of the tool traffic that a message keeps in its metadata, as it would be sent again."""
    kept = metadata.get(TOOL_MESSAGES, [])
    messages = kept if isinstance(kept, list) else []
    calls = [json.dumps(metadata[name]) for name in CALLS if metadata.get(name)]
    texts = [*calls, *(_sent(message) for message in messages)]
    return sum(count_tokens(text) + MESSAGE_OVERHEAD for text in texts if text)


def _sent(message: object) -> str:
    """The part of a tool message that a model reads: its text, and its calls as JSON."""
    if not isinstance(message, dict):
        return ""
    text = next((message[name] for name in ("content", "text", "value") if message.get(name)), "")
    said = [text if isinstance(text, str) else json.dumps(text)]
    return "\n".join([*said, *(json.dumps(message[name]) for name in CALLS if message.get(name))]).strip()
