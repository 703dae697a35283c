"""The trace of a fact through a chat: who said it, which version of the summary lost it, whether a prompt has it now.

Messages are found by the recall index. The number of versions read is bounded, whatever the chat's length.
A fact is its words, as recall reads them. It is in a text if all of them are in one passage, in any of their forms.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from conversations.models import Chat
from memory.briefs import text_of
from memory.context.build import preview
from memory.explain.reasons import OUTSIDE_MEMORY
from memory.models import ConversationBrief, SummaryRevision
from memory.recall.question import read_question
from memory.recall.ranking import Recall
from memory.recall.search import PassageMatches, find_passages
from memory.recall.terms import passages, terms

MAX_CHARS = 500
"""The longest text to trace, in characters: a fact is short."""
MAX_SHOWN = 20
"""The most messages shown that say it."""
MAX_VERSIONS = 200
"""The newest versions that are read."""
_READ = "version kind policy global_summary state from_seq through_seq tokens_after created_at forgotten_at".split()


WAYS = {
    "verbatim": "in full",
    "line": "in a one-line summary",
    "summary": "in the summary",
    "recalled": "recalled",
    "elsewhere": "quoted from another chat",
    "pinned": "pinned",
}
"""The ways in which a prompt can contain a fact, and their names for people."""
OF_SECTION = {"window": "verbatim", "lines": "line", "recall": "recalled", "elsewhere": "elsewhere", "pins": "pinned"}
"""The way that corresponds to a section of a prompt. A policy's own sections count as the summary."""


Version = TypeVar("Version")


class HeldSpan(NamedTuple, Generic[Version]):
    """Consecutive versions of a summary that have the fact, and the next one, which lost it, if any."""

    first: Version
    last: Version
    lost: Version | None


@dataclass(frozen=True, slots=True)
class Trace:
    """Where a fact was and is."""

    text: str
    matches: PassageMatches
    held: tuple[HeldSpan[SummaryRevision], ...]
    """The versions that have it, and the versions that lost it, oldest first."""
    in_use: bool
    """Whether the memory in use has it."""
    is_cut: bool
    """Whether there are older versions, which were not read."""
    now: tuple[str, ...]
    """In which ways the next prompt would contain the fact if the fact were the question."""
    recall: Recall | None
    """Whether that prompt would search earlier messages for it, and why."""

    @property
    def is_exact(self) -> bool:
        return not self.is_cut

    @property
    def has_more_matches(self) -> bool:
        """Whether there may be older messages that say it than those of `matches.hits`."""
        return self.matches.is_cut or len(self.matches.seqs) > len(self.matches.hits)


def trace_fact(chat: Chat, text: str) -> Trace | None:
    """Trace where `text` was said in `chat`, which versions had it or lost it, and how a prompt would have it now.

    No upstream is called. None if `text` has no words to search for.
    """
    question = read_question(text, chat.owner_id)
    words = frozenset(word.term for word in question.words)
    if not words:
        return None
    now = preview(chat, text, by_meaning=False)
    brief = ConversationBrief.objects.filter(chat=chat).first()
    newest = SummaryRevision.objects.filter(chat=chat).order_by("-version").only("chat_id", *_READ)
    versions = newest[:MAX_VERSIONS][::-1]
    return Trace(
        text,
        find_passages(chat, question, MAX_SHOWN),
        held=tuple(held_spans((version, has_fact(text_of(version), words)) for version in versions)),
        in_use=brief is not None and has_fact(text_of(brief), words),
        is_cut=brief is not None and brief.version > len(versions),
        now=tuple(ways_in([(section.kind, section.text) for section in now.sections], words)),
        recall=now.plan.recall,
    )


def has_fact(text: str, words: AbstractSet[str]) -> bool:
    """Whether one passage of `text` has all the words; a fact without words is in no text."""
    spans = passages(text) if words else []
    return any(words <= set(terms(text[start:end])) for start, end in spans)


def held_spans(known: Iterable[tuple[Version, bool]]) -> Iterator[HeldSpan[Version]]:
    """Yield the spans of versions that have the fact, from consecutive versions with whether they have it."""
    span: tuple[Version, Version] | None = None
    for version, is_held in known:
        if is_held:
            span = (span[0] if span else version, version)
        elif span:
            yield HeldSpan(*span, version)
            span = None
    if span:
        yield HeldSpan(*span, None)


def ways_in(sections: Iterable[tuple[str, str]], words: AbstractSet[str]) -> list[str]:
    """The ways in which a prompt with `sections`, (kind, text) pairs, contains the fact, except in the question."""
    ways = {
        OF_SECTION.get(kind, "summary")
        for kind, text in sections
        if kind not in OUTSIDE_MEMORY and has_fact(text, words)
    }
    return [way for way in WAYS if way in ways]
