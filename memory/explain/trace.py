"""The trace of a fact through a chat: who said it, which versions of the summary and which prompts had it, and how.

Messages are found by the recall index. The number of versions and prompts read is bounded, whatever the chat's
length. `memory.explain.fact` decides what they contain.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from conversations.models import Chat, Message
from memory.briefs import text_of
from memory.context.assemble import Context
from memory.context.plan.plan import Plan
from memory.explain.fact import (
    FactPlaces,
    HeldSpan,
    TracedFact,
    TracedPrompt,
    held_spans,
    is_held,
    ways_in,
    ways_of,
)
from memory.models import ConversationBrief, Pin, RevisionKind, SummaryRevision
from memory.recall import index
from memory.recall.decision import Recall
from memory.recall.query import read_question
from memory.recall.search import PassageMatches, said_in

MOST_SHOWN = 20
"""The most messages shown of those that say it."""
MOST_FOLLOWED = 8
"""The number of newest messages that say it whose following prompts are examined."""
FOLLOWING = 12
"""How many messages after each of those are searched for prompts."""
PROMPTS_BACK = 100
"""How many messages are searched for prompts, at the end of the chat or before the one given."""
ALL_VERSIONS = 100
"""In a history of at most this many versions, every version is read."""
MOST_MARKS = 100
"""In a longer history, the most versions examined at which the fact may have come back; the newest are taken."""
_FORGOTTEN = ("pk", "version", "parent", "kind", "from_seq", "through_seq", "created_at", "forgotten_at")


@dataclass(frozen=True, slots=True)
class TracedVersions:
    """Which versions of the summary have the fact. `losses` maps the numbers of versions that lost it to their rows.

    `is_exact`: every version was read; otherwise versions between two that were read are inferred from them.
    `is_cut`: there are older versions that were not examined.
    """

    held: tuple[HeldSpan, ...]
    losses: dict[int, SummaryRevision]
    in_use: bool
    is_exact: bool
    is_cut: bool


@dataclass(frozen=True, slots=True)
class Trace:
    """Where a fact was and is. `prompts` are all that were examined, newest first."""

    said: PassageMatches
    versions: TracedVersions
    prompts: tuple[TracedPrompt, ...]
    earlier: int | None
    """There are more prompts before this message, which were not examined."""
    now: tuple[str, ...]
    """In which ways the next prompt would contain the fact if the fact were the question."""
    recall: Recall | None
    """Whether that prompt would search earlier messages for it, and why."""


def trace(chat: Chat, text: str, now: Context, before_seq: int | None = None) -> Trace:
    """Trace `text` through `chat`. `now` is the prompt that would be sent with `text` as the question.

    Prompts before message `before_seq` are examined; None: the newest ones.
    """
    asked = read_question(text, chat.owner_id)
    fact = TracedFact.of(asked)
    said = said_in(chat, asked, MOST_SHOWN)
    brief = ConversationBrief.objects.filter(chat=chat).first()
    versions = _versions(brief, fact, said.seqs) if brief else TracedVersions((), {}, False, True, False)
    last = chat.last_seq if before_seq is None else min(before_seq - 1, chat.last_seq)
    prompts = _prompts(chat, fact, said.seqs, versions.held, last)
    now_in = ways_in([(section.kind, section.text) for section in now.sections], fact)
    earlier = last - PROMPTS_BACK + 1 if last > PROMPTS_BACK else None
    return Trace(said, versions, prompts, earlier, tuple(now_in), now.plan.recall)


# Versions


def _versions(brief: ConversationBrief, fact: TracedFact, said: Sequence[int]) -> TracedVersions:
    marks, is_cut = _marks(brief, said)
    spans = tuple(held_spans(marks, brief.version, lambda wanted: _holding(brief, fact, wanted)))
    lost = [span.lost_in for span in spans if span.lost_in is not None]
    rows = SummaryRevision.objects.filter(chat_id=brief.chat_id, version__in=lost).only(
        "chat_id", *_FORGOTTEN
    )
    return TracedVersions(
        spans,
        {row.version: row for row in rows},
        fact.is_in(text_of(brief)),
        brief.version <= ALL_VERSIONS,
        is_cut,
    )


def _marks(brief: ConversationBrief, said: Sequence[int]) -> tuple[list[int], bool]:
    """Return the versions at which the fact may appear or disappear, in order, and whether there are older ones."""
    if brief.version <= ALL_VERSIONS:
        return list(range(1, brief.version + 1)), False
    revisions = SummaryRevision.objects.filter(chat_id=brief.chat_id)
    odd = revisions.exclude(kind=RevisionKind.FOLD).order_by("-version").values_list("version", flat=True)
    found = set(odd[: MOST_MARKS + 1])
    for seq in said[:MOST_SHOWN]:
        seen = revisions.filter(seen_seq__gte=seq).order_by("seen_seq", "version")
        found.update(seen.values_list("version", flat=True)[:1])
    newest = sorted(found)[-MOST_MARKS:]
    return newest, len(found) > MOST_MARKS or len(said) > MOST_SHOWN


def _holding(brief: ConversationBrief, fact: TracedFact, versions: Collection[int]) -> dict[int, bool]:
    rows = SummaryRevision.objects.filter(chat_id=brief.chat_id, version__in=versions)
    texts = rows.only("version", "policy", "global_summary", "state")
    return dict.fromkeys(versions, False) | {row.version: fact.is_in(text_of(row)) for row in texts}


# Prompts


def _prompts(
    chat: Chat, fact: TracedFact, said: Sequence[int], held: Sequence[HeldSpan], last: int
) -> tuple[TracedPrompt, ...]:
    """The newest prompts up to message `last`, and those that followed the newest messages that say the fact."""
    seqs = {*range(max(1, last - PROMPTS_BACK + 1), last + 1)}
    for seq in said[:MOST_FOLLOWED]:
        seqs.update(range(seq, min(seq + FOLLOWING, last) + 1))
    rows = (
        Message.objects.filter(chat=chat, seq__in=seqs, context_record__isnull=False)
        .order_by("-seq")
        .values_list("pk", "seq", "reply_to__seq", "context_record__plan", "context_record__revision")
    )
    read = [(pk, seq, asked or 0, Plan.from_json(plan), version) for pk, seq, asked, plan, version in rows]
    places = _places(chat, fact, said, [plan for *_, plan, _ in read])
    return tuple(
        TracedPrompt(
            pk,
            seq,
            version,
            tuple(ways_of(plan, asked, fact, places, in_summary=is_held(version, held))),
        )
        for pk, seq, asked, plan, version in read
    )


def _places(chat: Chat, fact: TracedFact, said: Sequence[int], plans: Sequence[Plan]) -> FactPlaces:
    """Find the fact outside of summaries, as far as `plans` show those places."""
    lines = {line for plan in plans for line in plan.lines if any(line[0] <= seq <= line[1] for seq in said)}
    lined = {seq for first, last in lines for seq in range(first, last + 1)}
    rows = Message.objects.filter(chat=chat, seq__in=lined).exclude(line="").values_list("seq", "line")
    quotes = {
        quote.seq for plan in plans for group in plan.recalled for quote in group if quote.end is not None
    }
    pins = {pin.id for plan in plans for pin in plan.pins}
    pinned = Pin.objects.filter(chat=chat, pk__in=pins).values_list("pk", "text") if pins else ()
    return FactPlaces(
        said=frozenset(said),
        lines=frozenset(seq for seq, line in rows if fact.is_in(line)),
        pins=frozenset(str(pk) for pk, text in pinned if fact.is_in(text)),
        texts={seq: one.text for seq, one in index.quoted(chat.pk, quotes & set(said)).items()},
    )
