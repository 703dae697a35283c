"""A recorded conversation as the lab plays it: questions, replies, and the facts said in them. Pure.

Several messages of one side in a row count as one. A greeting before the first question and a last question without
a reply are left out, as no prompt depends on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from chatmemory.llm.protocol import PromptMessage, ToolCall
from chatmemory.runtime.escape import plain
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_tokens
from conversations.interchange.values import ImportedChat, ImportedMessage
from memory.history.turns import Step, is_whole

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


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its reply, with the rounds of tool calls between them."""

    question: str
    reply: str
    cut_off: bool = False
    rounds: tuple[Round, ...] = ()

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

    @property
    def forms(self) -> tuple[str, ...]:
        """All forms in which it may be written."""
        return (self.canonical, *self.surface)


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation, ready to be played."""

    name: str
    instructions: str
    exchanges: tuple[Exchange, ...]
    facts: tuple[KnownFact, ...] = ()


def talk_of(chat: ImportedChat, name: str) -> Conversation:
    """Convert a conversation from a file or from the database."""
    said: list[list[ImportedMessage]] = []
    places: dict[int, int] = {}
    for message in _spoken(chat.messages):
        if message.role == "user" and (not said or _text(said[-1], "assistant")):
            said.append([])
        if said:
            said[-1].append(message)
            places[message.number - 1] = len(said) - 1
    if said and not _text(said[-1], "assistant"):
        said.pop()
    places = {number: at for number, at in places.items() if at < len(said)}
    return Conversation(
        name, chat.instructions, tuple(map(_exchange, said)), tuple(_facts(chat.facts, places))
    )


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


def _text(messages: Sequence[ImportedMessage], role: str) -> str:
    return "\n\n".join(one.content for one in messages if one.role == role and one.content.strip())


def _exchange(messages: Sequence[ImportedMessage]) -> Exchange:
    """An exchange of these messages. Calls without an output cannot be played, so then all tools are left out."""
    question, reply = _text(messages, "user"), _text(messages, "assistant")
    spoken = [one for one in messages if one.role in ("user", "assistant")]
    cut_off = spoken[-1].status in CUT_OFF
    steps = [Step(one.role, one.content, one.payload) for one in messages if one.role != "user"]
    rounds, last = _rounds(steps) if is_whole(steps) else ([], "")
    if rounds and last:
        return Exchange(question, last, cut_off, tuple(rounds))
    return Exchange(question, reply, cut_off)


def _rounds(steps: Sequence[Step]) -> tuple[list[Round], str]:
    """Split the steps of a turn into rounds with tools, and the reply after them."""
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


def _facts(annotated: Sequence[object], places: Mapping[int, int]) -> Iterator[KnownFact]:
    """Yield the annotated values, each once; annotations of another shape are ignored."""
    found: dict[str, KnownFact] = {}
    for one in annotated:
        if not isinstance(one, dict) or not isinstance(one.get("canonical"), str):
            continue
        canonical = one["canonical"].strip()
        forms = [form for form in _listed(one, "surface") if isinstance(form, str) and form.strip()]
        said = {places[at] for at in _listed(one, "messages") if isinstance(at, int) and at in places}
        same = found.get(canonical.casefold(), KnownFact(canonical, (), ()))
        found[same.key] = KnownFact(
            same.canonical,
            tuple(dict.fromkeys((*same.surface, *forms))),
            tuple(sorted({*same.exchanges, *said})),
        )
    yield from (fact for key, fact in found.items() if key)


def _listed(annotation: Mapping[str, object], name: str) -> Sequence[object]:
    value = annotation.get(name)
    return value if isinstance(value, list) else []
