"""Restoring: what an older revision says made current again, as a new revision; folding goes on from there.

Only where all that the older revision was made from still stands. That is not looked up in the messages: whatever
changes one leaves its mark in the same transaction, on every revision that had seen it
(`memory.revisions.step_back`), or, where an answer is replaced, on the last turn it had seen. So it costs what lies
after the older revision, not the chat, and no text comes back that somebody changed or deleted.
"""

from __future__ import annotations

import logging

from django.contrib.auth.models import User
from django.db import transaction

from chatmemory.errors import Conflict, NotFound
from conversations.accounts import quotas
from conversations.models import Chat, Message, Role
from memory.counters import Tally, decide_due, recount, tally
from memory.folding import dispatch
from memory.folding.publish import locked_brief
from memory.models import ConversationBrief, Requested, RevisionKind, SummaryRevision
from memory.pause import pause, unpause
from memory.policies import POLICIES
from memory.revisions import step_back

logger = logging.getLogger(__name__)

TRIES = 3
"""What changes while it is looked at makes it be looked at again; so often."""


def restore(
    chat: Chat, version: int, user: User | None = None, *, on_demand: bool = False, pauses: bool = False
) -> ConversationBrief:
    """Make what revision `version` says the memory in use, as a new revision of which it is the parent.

    A fold or rebuild under way is dropped, and so is a rebuild that was asked for. The brief takes the revision's
    policy, and keeps it until the next rebuild, which is by the chat's. `user` is who restores; `on_demand`: as the
    chat's owner, within their limits. `pauses`: the version stays as it is, because updates pause; else they go on,
    even where they were paused. Raises `NotFound`, `RateLimited`, `QuotaExceeded`, and `Conflict` where the
    revision's sources do not stand any more.
    """
    for _ in range(TRIES):
        epoch, revision = restorable(chat, version)
        counted = tally(chat.pk, revision.through_seq)  # it may be thousands of turns: not while others wait
        with transaction.atomic():
            brief = locked_brief(chat.pk)
            # Whatever takes text out of memory, revisions with it, is another epoch.
            if brief is None or brief.epoch != epoch:
                continue
            if on_demand:
                quotas.take_rebuild(chat.owner_id)
                dispatch.demand(brief)
            tokens_before = choose(brief, revision, counted, user=user, pauses=pauses)
            keep(brief, _revision(brief, revision, tokens_before, user))
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
        raise Conflict(
            f"Version {version} was made by a policy that no longer exists. It cannot be restored."
        )
    if _tells_of_replaced(revision):
        raise Conflict(
            f"Version {version} is based on a reply that was replaced since. It cannot be restored."
        )
    return epoch, revision


def _tells_of_replaced(revision: SummaryRevision) -> bool:
    """Whether an answer that the revision had seen was replaced later. Only that of a chat's last turn ever is."""
    seen = Message.objects.filter(chat_id=revision.chat_id, seq__lte=revision.seen_seq)
    asked = seen.filter(role=Role.USER).order_by("-seq").values_list("seq", flat=True).first()
    turn = seen.filter(seq__gte=asked or 1, token_count__gt=0)
    return turn.filter(superseded_by__seq__gt=revision.seen_seq).exists()


def choose(
    brief: ConversationBrief,
    revision: SummaryRevision,
    counted: Tally | None = None,
    *,
    user: User | None,
    pauses: bool = False,
) -> int:
    """Let `brief`, which is locked, say what `revision` says, because `user` chose it. Saves nothing.

    It gets a version and an epoch of its own. `counted` is what follows the revision, if that was counted before.
    `pauses`: updates pause, else they go on. Returns the tokens of the memory before.
    """
    still = counted if counted and counted.epoch == brief.epoch else None
    tokens_before = brief.token_count
    step_back.stand_on(brief, revision)
    brief.version += 1
    brief.head = brief.version
    brief.epoch += 1
    # Nothing of what was to replace the memory before it may replace it.
    brief.degraded = False
    if brief.requested == Requested.REBUILD:
        brief.requested = Requested.NOTHING
    brief.options = brief.chat.options
    unpause(brief)
    recount(brief, still)
    if pauses:
        pause(brief, user)
        decide_due(brief)
    return tokens_before


def keep(brief: ConversationBrief, revision: SummaryRevision) -> None:
    """Save `brief` as `choose` left it, and the revision that tells of it. What is due then is folded again."""
    revision.save(force_insert=True)
    brief.save()
    dispatch.hint(brief)


def _revision(
    brief: ConversationBrief, restored: SummaryRevision, tokens_before: int, user: User | None
) -> SummaryRevision:
    """A revision that folded nothing and cost nothing; what it says was made as `restored` tells."""
    return SummaryRevision.of(
        brief,
        kind=RevisionKind.RESTORE,
        parent=restored.version,
        tokens_before=tokens_before,
        degraded=restored.degraded,
        model=restored.model,
        prompt_hash=restored.prompt_hash,
        retained=restored.retained,
        soft_faults=restored.soft_faults,
        is_wanting=restored.is_wanting,
        created_by=user,
    )
