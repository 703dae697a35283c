"""A recorded conversation as the lab plays it: questions, replies, and the facts said in them. Pure.

Several messages of one side in a row count as one. A greeting before the first question and a last question without
a reply are left out, as no prompt depends on them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import BaseModel, StringConstraints, ValidationError

from chatmemory.llm.protocol import PromptMessage
from chatmemory.runtime.escape import plain
from chatmemory.text.tokens import count_tokens
from conversations.interchange.values import ImportedChat, ImportedMessage
from memory.history.turns import Step, is_whole, step_messages

CUT_OFF = ("incomplete", "cancelled")


@dataclass(frozen=True, slots=True)
class Round:
    """The assistant's text and calls on the way to its reply, and the outputs of the tools."""

    message: PromptMessage
    outputs: list[PromptMessage] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """Tokens of what a model is sent of it afterwards."""
        return sum(one.tokens(count_tokens) for one in (self.message, *self.outputs))


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its reply, with the rounds of tool calls between them."""

    question: str
    reply: str
    cut_off: bool = False
    rounds: tuple[Round, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownFact:
    """A value, its other written forms, and the exchanges (from 0) that say it: none if only tools did."""

    canonical: str
    surface: tuple[str, ...] = ()
    exchanges: tuple[int, ...] = ()

    @property
    def forms(self) -> tuple[str, ...]:
        return (self.canonical, *self.surface)


@dataclass(frozen=True, slots=True)
class Conversation:
    name: str
    instructions: str
    exchanges: tuple[Exchange, ...]
    facts: tuple[KnownFact, ...] = ()


def talk_of(chat: ImportedChat, otherwise: str) -> Conversation:
    """Convert a conversation from a file or from the database.

    Its name, on one line, is the title it came with, its id in the file, or else `otherwise`.
    """
    title = "" if chat.title_is_automatic else chat.title
    name = plain(title or str(chat.metadata.get("source_id", "")) or otherwise)
    turns: list[list[ImportedMessage]] = []
    places: dict[int, int] = {}
    for message in chat.messages:
        gone = message.status in ("failed", "deleted") or message.superseded_by is not None
        if gone or not (message.content.strip() or message.payload):
            continue
        if message.role == "user" and (not turns or _text(turns[-1], "assistant")):
            turns.append([])
        if turns:
            turns[-1].append(message)
            places[message.number - 1] = len(turns) - 1
    if turns and not _text(turns[-1], "assistant"):
        turns.pop()
    places = {number: at for number, at in places.items() if at < len(turns)}
    return Conversation(name, chat.instructions, tuple(map(_exchange, turns)), _facts(chat.facts, places))


def _text(messages: Sequence[ImportedMessage], role: str) -> str:
    return "\n\n".join(one.content for one in messages if one.role == role and one.content.strip())


def _exchange(messages: Sequence[ImportedMessage]) -> Exchange:
    """An exchange of these messages. Calls without an output cannot be played, so then all tools are left out."""
    question, reply = _text(messages, "user"), _text(messages, "assistant")
    spoken = [one for one in messages if one.role in ("user", "assistant")]
    cut_off = spoken[-1].status in CUT_OFF
    steps = [Step(one.role, one.content, one.payload) for one in messages if one.role != "user"]
    rounds: list[Round] = []
    texts: list[str] = []
    for message in step_messages(steps) if is_whole(steps) else ():
        if message.role == "tool":
            rounds[-1].outputs.append(message)
            continue
        texts += [message.content] if message.content.strip() else []
        if message.calls:
            rounds.append(Round(replace(message, content="\n\n".join(texts))))
            texts = []
    if rounds and texts:
        return Exchange(question, "\n\n".join(texts), cut_off, tuple(rounds))
    return Exchange(question, reply, cut_off)


class _Annotation(BaseModel):
    """A value annotated in a file; `messages` are positions among its messages, from 0."""

    canonical: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    surface: list[str] = []
    messages: list[int] = []


def _facts(annotated: Sequence[object], places: Mapping[int, int]) -> tuple[KnownFact, ...]:
    """The annotated values, each once; annotations of another shape are ignored."""
    found: dict[str, KnownFact] = {}
    for one in annotated:
        try:
            fact = _Annotation.model_validate(one)
        except ValidationError:
            continue
        key = fact.canonical.casefold()
        same = found.get(key, KnownFact(fact.canonical))
        exchanges = {places[at] for at in fact.messages if at in places}
        found[key] = replace(
            same,
            surface=tuple(dict.fromkeys((*same.surface, *fact.surface))),
            exchanges=tuple(sorted({*same.exchanges, *exchanges})),
        )
    return tuple(found.values())
