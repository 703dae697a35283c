"""The trace of a fact through a chat: who said it, which version of the summary lost it, whether a prompt has it now.

Messages are found by the recall index. The number of versions read is bounded, whatever the chat's length.
`memory.explain.fact` decides what they contain. Also the versions that led to the memory in use, for
`memory.explain.timeline`.
"""

from dataclasses import dataclass

from conversations.models import Chat
from memory.briefs import text_of
from memory.context.build import preview
from memory.explain.fact import HeldSpan, has_fact, held_spans, ways_in
from memory.explain.timeline import Fold, lineage
from memory.models import ConversationBrief, SummaryRevision
from memory.recall.question import read_question
from memory.recall.ranking import Recall
from memory.recall.search import PassageMatches, find_passages

MAX_CHARS = 500
"""The longest text to trace, in characters: a fact is short."""
MAX_SHOWN = 20
"""The most messages shown of those that say it."""
MAX_VERSIONS = 200
"""The newest versions that are read."""
_READ = "version kind policy global_summary state from_seq through_seq tokens_after created_at forgotten_at".split()


@dataclass(frozen=True, slots=True)
class Trace:
    """Where a fact was and is."""

    text: str
    matches: PassageMatches
    held: tuple[HeldSpan[SummaryRevision], ...]
    """The versions that have it, oldest first, and those that lost it."""
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


def folds_of(brief: ConversationBrief | None) -> list[Fold]:
    """The versions from which the memory in use was made, newest first; none if nothing is folded."""
    if brief is None or not brief.folded_through_seq:
        return []
    rows = SummaryRevision.objects.filter(**brief.chat_key.columns, version__lte=brief.head)
    return lineage(brief.head, (Fold(*row) for row in rows.values_list(*Fold._fields)))
