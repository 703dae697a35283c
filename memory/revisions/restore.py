"""Restoring: making the text of an older revision current again, as a new revision from which folding continues.

It is possible only while everything that the older revision was made from is unchanged. That needs no comparison of
messages: any change of a message is recorded in the same transaction, on every revision that had seen it
(`memory.revisions.step_back`), or, if an answer is replaced, on the last turn it had seen. So the cost depends on
what follows the older revision and not on the chat, and no text comes back that somebody changed or deleted.
"""

from __future__ import annotations

import logging

from django.contrib.auth.models import User
from django.db import transaction

from chatmemory.errors import Conflict, NotFound
from conversations.accounts import quotas
from conversations.models import Chat, Message, Role
from memory.briefs import decide_due
from memory.folding import dispatch
from memory.folding.publish import locked_brief
from memory.models import ConversationBrief, Requested, RevisionKind, SummaryRevision
from memory.policies import POLICIES
from memory.revisions import step_back

logger = logging.getLogger(__name__)

TRIES = 3
"""The number of attempts if the chat changes during a restore."""


def restore(
    chat: Chat, version: int, user: User | None = None, *, on_demand: bool = False, pauses: bool = False
) -> ConversationBrief:
    """Make the text of revision `version` the memory in use, as a new revision of which it is the parent.

    A running fold or rebuild is dropped, and so is a requested rebuild. The brief takes the revision's policy, and
    keeps it until the next rebuild, which uses the chat's. `user` is who restores; `on_demand`: as the chat's owner,
    within their limits. `pauses`: updates pause, so that the version stays as it is; otherwise they continue, even if
    they were paused. Raises `NotFound`, `RateLimited`, `QuotaExceeded`, and `Conflict` if the revision's sources have
    changed.
    """
    for _ in range(TRIES):
        epoch, revision = restorable(chat, version)
        with transaction.atomic():
            brief = locked_brief(chat.pk)
            # Anything that removes text from memory, and from revisions, raises the epoch.
            if brief is None or brief.epoch != epoch:
                continue
            if on_demand:
                quotas.take_rebuild(chat.owner_id)
                dispatch.mark_demanded(brief)
            tokens_before = make_current(brief, revision, user=user, pauses=pauses)
            save_with_revision(brief, _revision(brief, revision, tokens_before, user))
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
    """Return the revision, which can be restored, and the epoch in which that was so. Raises as `restore` does.

    The epoch is read first, so that a change in between is detected.
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
    if _includes_replaced_answer(revision):
        raise Conflict(
            f"Version {version} is based on a reply that was replaced since. It cannot be restored."
        )
    return epoch, revision


def _includes_replaced_answer(revision: SummaryRevision) -> bool:
    """Whether an answer that the revision had seen was replaced later. Only a chat's last answer ever is."""
    seen = Message.objects.filter(chat_id=revision.chat_id, seq__lte=revision.seen_seq)
    asked = seen.filter(role=Role.USER).order_by("-seq").values_list("seq", flat=True).first()
    turn = seen.filter(seq__gte=asked or 1, token_count__gt=0)
    return turn.filter(superseded_by__seq__gt=revision.seen_seq).exists()


def make_current(
    brief: ConversationBrief,
    revision: SummaryRevision,
    *,
    user: User | None,
    pauses: bool = False,
) -> int:
    """Give the locked `brief` the text of `revision`, chosen by `user`, with a new version and epoch.

    Saves nothing. `pauses`: updates pause, otherwise they continue. Returns the tokens of the previous memory.
    """
    tokens_before = brief.token_count
    step_back.apply_revision(brief, revision)
    brief.version += 1
    brief.head = brief.version
    brief.epoch += 1
    # Drop any pending work that was to replace the previous memory.
    brief.degraded = False
    if brief.requested == Requested.REBUILD:
        brief.requested = Requested.NOTHING
    brief.options = brief.chat.options
    brief.unpause()
    if pauses:
        brief.pause(user)
    decide_due(brief)
    return tokens_before


def save_with_revision(brief: ConversationBrief, revision: SummaryRevision) -> None:
    """Save `brief` as `make_current` left it, and its revision, and queue a fold if the chat is due."""
    revision.save(force_insert=True)
    brief.save()
    dispatch.enqueue_if_ready(brief)


def _revision(
    brief: ConversationBrief, restored: SummaryRevision, tokens_before: int, user: User | None
) -> SummaryRevision:
    """A revision that folded nothing and cost nothing; the provenance of its text is that of `restored`."""
    return SummaryRevision.of(
        brief,
        kind=RevisionKind.RESTORE,
        parent=restored.version,
        tokens_before=tokens_before,
        degraded=restored.degraded,
        model=restored.model,
        prompt_hash=restored.prompt_hash,
        focus=restored.focus,
        custom_instructions=restored.custom_instructions,
        retained=restored.retained,
        soft_faults=restored.soft_faults,
        is_wanting=restored.is_wanting,
        created_by=user,
    )
