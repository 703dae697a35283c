"""Parses what the built-in model has to summarize: who said what, and the memory so far.

There are two layouts: that of `chatmemory.llm.summarizer_input`, and that of facts and narrative (seed
003). Parsing takes linear time for any text, and at most the newest `READ_CHARS` of it are analyzed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chatmemory.llm.offline.extract import sentences
from chatmemory.llm.offline.phrases import split_own_words
from chatmemory.llm.summarizer_input import parse_summarizer_input
from chatmemory.text.cleaning import clean

READ_CHARS, READ_CHARS_EACH = 400_000, 80_000
"""Maximum characters that are analyzed, of a conversation and of one message."""

FACTS_HEADING = "## Existing facts (merge, update, or remove as needed):\n"
CONVERSATION_HEADING = "\n\n## Conversation:\n"
NO_FACTS = "- none"

_SPEAKER = re.compile(r"^\[(user|assistant)\]: ", re.MULTILINE)
_FACT = re.compile(r"- ([^:\n]+): (.+)")


@dataclass(frozen=True, slots=True)
class QuotedMessage:
    """One message. `turn` counts from 0."""

    text: str
    by_user: bool
    turn: int


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence, its speaker and its turn."""

    text: str
    by_user: bool
    turn: int


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """The input of a summary: the memory so far, as text or as facts, and the new messages in order."""

    existing: str
    said: tuple[QuotedMessage, ...]
    facts: tuple[tuple[str, str], ...] = ()
    """The existing facts as (key, value)."""
    quoted: tuple[QuotedMessage, ...] = ()
    """Quotations in the built-in model's replies. They are not new statements, but may answer a question."""

    @property
    def typed(self) -> list[str]:
        """The texts of the user's messages."""
        return [each.text for each in self.said if each.by_user]

    @property
    def texts(self) -> list[str]:
        """The texts of all messages."""
        return [each.text for each in self.said]

    def sentences(self) -> list[Sentence]:
        """The distinct sentences of the messages, in order."""
        return list(_unique(self.said))

    def quotes(self) -> list[Sentence]:
        """The distinct sentences that the built-in model quoted."""
        return list(_unique(self.quoted))


def _unique(said: Sequence[QuotedMessage]) -> Iterator[Sentence]:
    seen: set[str] = set()
    for each in said:
        for text in sentences(each.text):
            if text not in seen:
                seen.add(text)
                yield Sentence(text, each.by_user, each.turn)


def read_turns(text: str) -> ParsedRequest:
    """Parse a summarizer input. Raise `ValueError` if `text` is anything else."""
    existing, turns = parse_summarizer_input(clean(text))
    return request_from_turns(existing, turns)


def request_from_turns(existing: str, turns: Sequence[tuple[str, str]]) -> ParsedRequest:
    """Make a request of (user, assistant) pairs."""
    sides = (
        QuotedMessage(text, by_user, number)
        for number, (user, assistant) in enumerate(turns)
        for text, by_user in ((user, True), (assistant, False))
        if text
    )
    said, quoted = _newest(list(sides))
    return ParsedRequest(existing[:READ_CHARS_EACH], said, quoted=quoted)


def read_messages(text: str) -> ParsedRequest:
    """Parse existing facts and `[user]:`, `[assistant]:` messages. Raise `ValueError` if `text` is anything else."""
    head, found, body = clean(text).partition(CONVERSATION_HEADING)
    if not (found and head.startswith(FACTS_HEADING)):
        raise ValueError("neither facts nor a conversation")
    facts = _FACT.findall(head.removeprefix(FACTS_HEADING)[:READ_CHARS_EACH])
    said, quoted = _newest(_messages(body))
    return ParsedRequest("", said, tuple(facts), quoted)


def _messages(body: str) -> list[QuotedMessage]:
    before, *parts = _SPEAKER.split(body)
    said = [QuotedMessage(before, True, 0)] if before.strip() else []
    for number, (role, text) in enumerate(zip(parts[::2], parts[1::2], strict=True)):
        said.append(QuotedMessage(text, role == "user", number))
    return said


def _newest(said: Sequence[QuotedMessage]) -> tuple[tuple[QuotedMessage, ...], tuple[QuotedMessage, ...]]:
    """The last messages within `READ_CHARS`, in order, each cut to its own limit; and the quotations in them."""
    kept: list[QuotedMessage] = []
    quoted: list[QuotedMessage] = []
    room = READ_CHARS
    for each in reversed(said):
        if not room:
            break
        text, quote = each.text[: min(READ_CHARS_EACH, room)], ""
        if not each.by_user:
            text, quote = split_own_words(text)
        room -= len(text) + len(quote)
        if text:
            kept.append(QuotedMessage(text, each.by_user, each.turn))
        if quote:
            quoted.append(QuotedMessage(quote, each.by_user, each.turn))
    return tuple(reversed(kept)), tuple(reversed(quoted))
