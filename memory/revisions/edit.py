"""Editing a memory by hand, or clearing it: the result is a new revision, from which folding continues.

A revision written by hand folds nothing and has seen what its base had seen. So it is emptied together with its base
when a message is forgotten. The policy defines how its state is edited.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from django.contrib.auth.models import User
from django.db import transaction

from chatmemory.errors import Conflict, NotFound
from chatmemory.text.spans import retained
from conversations.accounts import quotas
from conversations.models import Chat
from memory.briefs import limits_for, text_of
from memory.folding import dispatch
from memory.folding.publish import locked_brief
from memory.limits import MemoryLimits
from memory.models import ConversationBrief, RevisionKind, SummaryRevision
from memory.policies import POLICIES, State
from memory.policies.edit_form import EditField
from memory.policies.protocol import Policy
from memory.revisions.restore import make_current, restorable, save_with_revision

logger = logging.getLogger(__name__)


class StaleEdit(Conflict):
    """The version in use is not the one that was in use when the editing began."""


@dataclass(frozen=True, slots=True)
class Draft:
    """The parts that can be edited."""

    base: SummaryRevision
    """The revision that the parts are taken from."""
    in_use: int
    """The version in use, which must still be in use when the edit is saved."""
    parts: Sequence[EditField]


def draft(chat: Chat, version: int | None = None) -> Draft:
    """Return the parts of revision `version`, or of the one in use. Raises `NotFound` and `Conflict`."""
    brief = ConversationBrief.objects.filter(chat=chat).first()
    if brief is None or not brief.head:
        raise Conflict("There is no summary to edit yet.")
    brief.chat = chat
    base = _readable(chat, version or brief.head)
    policy = POLICIES[base.policy]
    return Draft(base, brief.head, policy.edit_fields(_state_of(base), _limits(brief, policy)))


def changed(brief: ConversationBrief, base: SummaryRevision, changes: Mapping[str, str]) -> SummaryRevision:
    """Return `base` with `changes`, by part, as an unsaved revision without a version. Raises `BadEdit`."""
    policy = POLICIES[base.policy]
    return _by_hand(base, policy.edited(_state_of(base), changes, _limits(brief, policy)))


def _by_hand(base: SummaryRevision, state: State) -> SummaryRevision:
    """An unsaved revision with the text of `state` that has seen what `base` had."""
    return SummaryRevision(
        chat_id=base.chat_id,
        parent=base.version,
        kind=RevisionKind.MANUAL,
        policy=base.policy,
        global_summary=state.summary,
        state=state.to_json(),
        from_seq=base.through_seq + 1,
        through_seq=base.through_seq,
        seen_seq=base.seen_seq,
        folded_tokens=base.folded_tokens,
        turns=0,
        cost_usd=0,
    )


def edit_by_hand(
    chat: Chat,
    changes: Mapping[str, str],
    user: User | None,
    *,
    on_version: int,
    base: int | None = None,
    pauses: bool = False,
) -> ConversationBrief:
    """Publish a new revision: the text of revision `base`, or of the one in use, with `changes` by part.

    `on_version` must still be in use, otherwise `StaleEdit` is raised. An older `base` takes the chat back to what
    that revision covers, as `restore` does, and on the same conditions; `pauses` is the same as there. A running fold
    or rebuild is dropped, and so is a requested rebuild. Raises `BadEdit` (`memory.policies.edit_form`), `NotFound`
    and `Conflict`.
    """
    older = base is not None and base != on_version
    epoch = None
    if older and base is not None:
        epoch, _ = restorable(chat, base)
    with transaction.atomic():
        brief = locked_brief(chat.pk)
        if brief is None or brief.head != on_version:
            raise StaleEdit("The memory has changed since you began: another version is current now.")
        if epoch is not None and brief.epoch != epoch:
            raise Conflict("The chat keeps changing. Try again in a moment.")
        revision = changed(brief, _readable(chat, base or on_version), changes)
        _publish(brief, revision, user, pauses=pauses)
    logger.info(
        "memory edited by hand",
        extra={
            "chat": str(chat.pk),
            "edited": revision.parent,
            "version": brief.version,
            "user": user.pk if user else None,
        },
    )
    return brief


def clear(chat: Chat, user: User | None, *, on_demand: bool = False) -> ConversationBrief:
    """Empty the memory in use, by a new revision: the summary starts again with what is not folded yet.

    What was folded stays in the chat, where it can be recalled; restoring the previous version undoes it.
    `on_demand`: as the chat's owner, within their limits. Raises `Conflict`, `RateLimited` and `QuotaExceeded`.
    """
    with transaction.atomic():
        brief = locked_brief(chat.pk)
        if brief is None or not text_of(brief):
            raise Conflict("There is no summary to clear.")
        if on_demand:  # it drops a running fold, which has to be repeated
            quotas.take_rebuild(chat.owner_id)
            dispatch.mark_demanded(brief)
        base = SummaryRevision.objects.get(chat_id=chat.pk, version=brief.head)
        _publish(brief, _by_hand(base, State()), user)
    logger.info(
        "memory cleared",
        extra={"chat": str(chat.pk), "version": brief.version, "user": user.pk if user else None},
    )
    return brief


def _publish(
    brief: ConversationBrief,
    revision: SummaryRevision,
    user: User | None,
    *,
    pauses: bool = False,
) -> None:
    before = SummaryRevision.objects.get(chat_id=brief.chat_id, version=revision.parent or 0)
    if (before.global_summary, before.state) == (revision.global_summary, revision.state):
        raise Conflict("Nothing was changed.")
    revision.tokens_before = make_current(brief, revision, user=user, pauses=pauses)
    revision.version, revision.tokens_after = brief.version, brief.token_count
    revision.retained = asdict(retained(text_of(before), text_of(revision)))
    revision.created_by = user
    brief.kept_percent = revision.kept_percent
    save_with_revision(brief, revision)


def _readable(chat: Chat, version: int) -> SummaryRevision:
    revision = SummaryRevision.objects.filter(chat=chat, version=version).first()
    if revision is None:
        raise NotFound("This chat's memory has no such version.")
    if revision.forgotten_at is not None:
        raise Conflict(f"The texts of version {version} were deleted. There is nothing to edit in it.")
    if revision.policy not in POLICIES:
        raise Conflict(f"Version {version} was made by a policy that no longer exists. It cannot be edited.")
    return revision


def _state_of(revision: SummaryRevision) -> State:
    return State.from_json(revision.global_summary, revision.state)


def _limits(brief: ConversationBrief, policy: Policy) -> MemoryLimits:
    """The limits that apply to a memory by `policy` once it is in use."""
    chat = brief.chat
    options = {chat.policy: chat.options, brief.policy: brief.options}.get(policy.name, {})
    return limits_for(policy, options, chat.instructions)
