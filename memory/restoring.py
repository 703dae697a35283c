"""Restoring: what an older revision says made current again, as a new revision; folding goes on from there.

Only where all that the older revision was made from still stands as it was: its sources, and those of the revisions it
goes on from, are read again and held against their hashes. So no text comes back that somebody changed or deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db import transaction

from chatmemory.errors import Conflict, NotFound
from conversations.models import Chat, Message
from memory import queueing, stepping
from memory.loading import each_turn, recount
from memory.models import ConversationBrief, Kind, Requested, SummaryRevision
from memory.policies import POLICIES
from memory.provenance import source_hash
from memory.publishing import locked_brief
from memory.turns import Turn

logger = logging.getLogger(__name__)

TRIES = 3
"""What changes while the sources are read makes them be read again; so often."""


@dataclass(frozen=True, slots=True)
class Source:
    """The messages that one revision folded, and the hash of their turns."""

    from_seq: int
    through_seq: int
    hash: str


def restore(chat: Chat, version: int, user: User | None = None) -> ConversationBrief:
    """Make what revision `version` says the memory in use, as a new revision of which it is the parent.

    A fold or rebuild under way is dropped, and so is a rebuild that was asked for. The brief takes the revision's
    policy, and keeps it until the next rebuild, which is by the chat's. `user` is who restores. Raises `NotFound`, and
    `Conflict` where the revision's sources do not stand any more.
    """
    for _ in range(TRIES):
        epoch, revision = restorable(chat, version)
        with transaction.atomic():
            brief = locked_brief(chat.pk)
            # Whatever takes text out of memory, revisions with it, is another epoch.
            if brief is None or brief.epoch != epoch:
                continue
            _make_current(brief, revision, user)
        logger.info(
            "memory restored",
            extra={
                "chat": str(chat.pk),
                "restored": version,
                "version": brief.version,
                "user": user.pk if user else None,
            },
        )
        return brief
    raise Conflict("The chat keeps changing. Try again in a moment.")


def restorable(chat: Chat, version: int) -> tuple[int, SummaryRevision]:
    """The revision, which can be restored, and the epoch in which that was so. Raises as `restore` does.

    The epoch is read first, so that a change in between is seen.
    """
    epoch = ConversationBrief.objects.filter(chat=chat).values_list("epoch", flat=True).first()
    revision = SummaryRevision.objects.filter(chat=chat, version=version).first()
    if epoch is None or revision is None:
        raise NotFound("This chat's memory has no such version.")
    if revision.forgotten_at is not None:
        raise Conflict(f"The texts of version {version} were deleted. It cannot be restored.")
    if revision.policy not in POLICIES:
        raise Conflict(f"Version {version} was made by a policy that is no more. It cannot be restored.")
    _require_true(revision)
    return epoch, revision


def _require_true(revision: SummaryRevision) -> None:
    sources = _sources(revision)
    turns = each_turn(revision.chat_id, 0, revision.through_seq + 1, text=True)
    if sources is None or not _stand(sources, turns) or _tells_of_replaced(revision):
        raise Conflict(
            f"Version {revision.version} tells of messages that were changed, deleted or replaced since. "
            "It cannot be restored."
        )


def _sources(revision: SummaryRevision) -> list[Source] | None:
    """What the revision was made from, from the first message on; None where a revision it goes on from is gone."""
    columns = ("version", "parent", "kind", "from_seq", "through_seq", "source_hash")
    rows = SummaryRevision.objects.filter(chat_id=revision.chat_id, version__lte=revision.version)
    lineage = {row[0]: row[1:] for row in rows.values_list(*columns)}
    sources: list[Source] = []
    version: int | None = revision.version
    while version:
        if version not in lineage:
            return None
        version, kind, from_seq, through_seq, hash_ = lineage[version]
        if through_seq >= from_seq:
            sources.append(Source(from_seq, through_seq, hash_))
        if kind == Kind.REBUILD:
            break
    return sources[::-1]


def _stand(sources: Sequence[Source], turns: Iterable[Turn]) -> bool:
    """Whether `turns`, all of them from the first on, are what `sources` were."""
    waiting = list(sources[::-1])
    so_far = ""
    for turn in turns:
        if not waiting or turn.from_seq < waiting[-1].from_seq or turn.through_seq > waiting[-1].through_seq:
            return False
        so_far = source_hash([turn], so_far)
        if turn.through_seq == waiting[-1].through_seq:
            if so_far != waiting.pop().hash:
                return False
            so_far = ""
    return not waiting


def _tells_of_replaced(revision: SummaryRevision) -> bool:
    """Whether an answer was replaced of which a card told before its turn was folded. No hash tells of those."""
    told = Message.objects.filter(
        chat_id=revision.chat_id, seq__gt=revision.through_seq, seq__lte=revision.seen_seq
    )
    return told.filter(superseded_by__isnull=False).exists()


def _make_current(brief: ConversationBrief, revision: SummaryRevision, user: User | None) -> None:
    tokens_before = choose(brief, revision)
    keep(brief, _revision(brief, revision, tokens_before, user))


def choose(brief: ConversationBrief, revision: SummaryRevision) -> int:
    """Let `brief`, which is locked, say what `revision` says, because somebody chose it. Saves nothing.

    It gets a version and an epoch of its own. Returns the tokens of the memory before.
    """
    tokens_before, policy_before = brief.token_count, brief.policy
    stepping.stand_on(brief, revision)
    brief.version += 1
    brief.head = brief.version
    brief.epoch += 1
    # Nothing of what was to replace the memory before it may replace it.
    brief.degraded = False
    if brief.requested == Requested.REBUILD:
        brief.requested = Requested.NOTHING
    if brief.policy == brief.chat.policy:
        brief.options = brief.chat.options
    elif brief.policy != policy_before:
        brief.options = {}
    recount(brief)
    return tokens_before


def keep(brief: ConversationBrief, revision: SummaryRevision) -> None:
    """Save `brief` as `choose` left it, and the revision that tells of it. What is due then is folded again."""
    revision.save(force_insert=True)
    brief.save()
    if brief.due or brief.requested:
        queueing.enqueue_fold(brief.chat_id)


def _revision(
    brief: ConversationBrief, restored: SummaryRevision, tokens_before: int, user: User | None
) -> SummaryRevision:
    """A revision that folded nothing and cost nothing; what it says was made as `restored` tells."""
    return SummaryRevision(
        chat_id=brief.chat_id,
        version=brief.version,
        parent=restored.version,
        kind=Kind.RESTORE,
        policy=restored.policy,
        degraded=restored.degraded,
        global_summary=restored.global_summary,
        state=restored.state,
        from_seq=restored.through_seq + 1,
        through_seq=restored.through_seq,
        seen_seq=restored.seen_seq,
        folded_tokens=restored.folded_tokens,
        turns=0,
        tokens_before=tokens_before,
        tokens_after=brief.token_count,
        cost_usd=0,
        model=restored.model,
        prompt_hash=restored.prompt_hash,
        retained=restored.retained,
        soft_faults=restored.soft_faults,
        is_wanting=restored.is_wanting,
        created_by=user,
    )
