"""What people do with a memory: restore an older version, edit or clear the one in use, pause and resume updates.

The first three make a new revision, from which folding continues; a running fold or rebuild is dropped, and so is a
requested rebuild. The revision folds nothing, and has seen what its base had seen, so it is emptied together with its
base when a message is forgotten.

An older version can be used only while everything that it was made from is unchanged. That needs no comparison of
messages: any change of a message is recorded in the same transaction, on every revision that had seen it
(`memory.revisions.step_back`), or, if an answer is replaced, on the last turn it had seen. So the cost depends on
what follows the older version and not on the chat, and no text comes back that a person changed or deleted.

`user` is who does it, for the record. `on_demand`: as the chat's owner, within their limits: `RateLimited` and
`QuotaExceeded` may be raised.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from chatmemory.errors import Conflict, NotFound
from chatmemory.runtime.tracing import memory_span
from chatmemory.text.spans import SpanIndex, retained
from conversations.accounts import quotas
from conversations.models import Chat, Message, Role
from memory.briefs import Memory, decide_due, lock_brief, text_of
from memory.folding import leases
from memory.models import ConversationBrief, Requested, RevisionKind, SummaryRevision
from memory.policies import POLICIES
from memory.policies.protocol import State
from memory.policies.state_parts import EditField
from memory.revisions import step_back

logger = logging.getLogger(__name__)


class StaleEdit(Conflict):
    """The version in use is not the one that was in use when the editing began."""


def restore(
    chat: Chat, version: int, user: User | None = None, *, on_demand: bool = False, pauses: bool = False
) -> ConversationBrief:
    """Make the text of revision `version` the memory in use, as a new revision of which it is the parent.

    The brief takes the revision's policy, and keeps it until the next rebuild, which uses the chat's. `pauses`: updates
    pause, so that the version stays as it is; otherwise they continue, even if they were paused. Raises `NotFound`, and
    `Conflict` if the revision's sources have changed.
    """
    with memory_span("update_memory", chat.pk), transaction.atomic():
        brief = lock_brief(chat.key)
        _publish(brief, _unchanged(chat, version), user, on_demand=on_demand, pauses=pauses)
    _log("memory restored", brief, user, restored=version, version=brief.version)
    return brief


def editable_parts(brief: ConversationBrief) -> Sequence[EditField]:
    """The parts of the memory in use, as they can be edited. Raises `Conflict`."""
    if not brief.head:
        raise Conflict("There is no summary to edit yet.")
    _readable(brief.chat, brief.head, "edited")
    memory = Memory.of(brief)
    return memory.policy.edit_fields(memory.state, memory.limits)


def edit_by_hand(
    chat: Chat, changes: Mapping[str, str], user: User | None, *, on_version: int, pauses: bool = False
) -> ConversationBrief:
    """Publish a new revision: the text of the one in use, which must be `on_version`, with `changes` by part.

    Raises `StaleEdit`, `BadEdit`, `NotFound` and `Conflict`.
    """
    with memory_span("update_memory", chat.pk), transaction.atomic():
        brief = lock_brief(chat.key)
        if brief.head != on_version:
            raise StaleEdit("The memory has changed since you began: another version is current now.")
        base, memory = _readable(chat, on_version, "edited"), Memory.of(brief)
        state = memory.policy.edited(memory.state, changes, memory.limits)
        if (state.summary, state.to_json()) == (base.global_summary, base.state):
            raise Conflict("Nothing was changed.")
        _publish(brief, base, user, written=state, pauses=pauses)
    _log("memory edited by hand", brief, user, edited=on_version, version=brief.version)
    return brief


def clear(chat: Chat, user: User | None, *, on_demand: bool = False) -> ConversationBrief:
    """Empty the memory in use, by a new revision: the summary starts again with what is not folded yet.

    What was folded stays in the chat, where it can be recalled. Raises `Conflict`.
    """
    with memory_span("update_memory", chat.pk), transaction.atomic():
        brief = lock_brief(chat.key)
        if not text_of(brief):
            raise Conflict("There is no summary to clear.")
        base = SummaryRevision.objects.get(chat=chat, version=brief.head)
        _publish(brief, base, user, written=State(), on_demand=on_demand)
    _log("memory cleared", brief, user, version=brief.version)
    return brief


def pause_updates(chat: Chat, user: User | None) -> ConversationBrief:
    """Freeze the memory of `chat`: running and requested work is dropped. Does nothing if paused already."""
    with transaction.atomic():
        brief = lock_brief(chat.key)
        if brief.paused_at is None:
            brief.epoch += 1  # so that a running fold, or the card of a reply, cannot publish
            brief.pause(user)
            leases.save(brief)
            _log("memory paused", brief, user)
    return brief


def resume_updates(chat: Chat, user: User | None, *, on_demand: bool = False) -> ConversationBrief:
    """Resume updates of `chat`: what has become due is folded. Does nothing if not paused.

    With `on_demand` it counts, because the fold that the pause dropped is repeated now.
    """
    with transaction.atomic():
        brief = lock_brief(chat.key)
        if brief.paused_at is not None:
            brief.unpause()
            decide_due(brief)
            if brief.due and on_demand:
                quotas.take_rebuild(chat.owner_id)
                leases.mark_demanded(brief)
            brief.save()
            leases.enqueue_if_ready(brief)
            _log("memory resumed", brief, user)
    return brief


def get_revision(chat: Chat, version: int) -> SummaryRevision:
    """A revision of the chat. Raises `NotFound`."""
    revision = SummaryRevision.objects.filter(chat=chat, version=version).first()
    if revision is None:
        raise NotFound("This chat's memory has no such version.")
    return revision


def _readable(chat: Chat, version: int, done: str) -> SummaryRevision:
    """The revision, if it has a text that a policy understands."""
    revision = get_revision(chat, version)
    if revision.forgotten_at is not None:
        raise Conflict(f"The texts of version {version} were deleted. It cannot be {done}.")
    if revision.policy not in POLICIES:
        raise Conflict(f"Version {version} was made by a policy that no longer exists. It cannot be {done}.")
    return revision


def _unchanged(chat: Chat, version: int) -> SummaryRevision:
    """The revision, if everything that it was made from is unchanged. The brief must be locked."""
    revision = _readable(chat, version, "restored")
    seen = Message.objects.filter(chat=chat, seq__lte=revision.seen_seq)
    question = seen.filter(role=Role.USER).order_by("-seq").values_list("seq", flat=True).first()
    # Only a chat's last answer is ever replaced.
    turn = seen.filter(seq__gte=question or 1, token_count__gt=0)
    if turn.filter(superseded_by__seq__gt=revision.seen_seq).exists():
        raise Conflict(f"Version {version} is based on a reply that was replaced since. It cannot be restored.")
    return revision


def _publish(
    brief: ConversationBrief,
    base: SummaryRevision,
    user: User | None,
    *,
    written: State | None = None,
    on_demand: bool = False,
    pauses: bool = False,
) -> None:
    """Make the state of `base`, or what was `written` from it, the memory in use; queue a fold if the chat is due."""
    if on_demand:  # it drops a running fold, which has to be repeated
        quotas.take_rebuild(brief.chat.owner_id)
        leases.mark_demanded(brief)
    tokens_before = brief.token_count
    step_back.apply_revision(brief, base)
    kind, provenance = RevisionKind.RESTORE, base.provenance
    if written is not None:
        brief.global_summary, brief.state = written.summary, written.to_json()
        brief.token_count = POLICIES[base.policy].size(written)
        kept = retained([text_of(base)], SpanIndex(text_of(brief))).listed
        # The API has had the field `through_seq` here.
        kind, provenance = RevisionKind.MANUAL, {"retained": {**kept, "through_seq": None}}
    brief.epoch += 1
    brief.degraded = False
    if brief.requested == Requested.REBUILD:
        brief.requested = Requested.NOTHING
    brief.options = brief.chat.options
    brief.unpause()
    if pauses:
        brief.pause(user)
    revision = SummaryRevision.add(
        brief, kind=kind, parent=base.version, tokens_before=tokens_before, created_by=user, **provenance
    )
    brief.kept_percent = revision.kept_percent
    leases.save(brief)


def _log(event: str, brief: ConversationBrief, user: User | None, **more: Any) -> None:
    logger.info(event, extra={"chat": str(brief.chat_id), "user": user.pk if user else None, **more})
