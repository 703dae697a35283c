"""Stepping a brief back to a revision from before the messages that changed.

If texts must be removed, the revisions that had seen them stay as empty rows, so that versions are consecutive and
costs add up; the step back is itself a revision, so that the version grows and every reader sees that memory changed.

A memory that was cleared by hand contains nothing of any message, so a step back never goes past it: otherwise a change
of an old message would bring back what was cleared.
"""

from typing import Any

from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Now

from chatmemory.database.owned import ChatKey
from conversations.models import Message, Role, Status
from memory.models import ConversationBrief, Requested, RevisionKind, SummaryRevision
from memory.policies import POLICIES
from memory.policies.protocol import State

_EMPTIED: dict[str, Any] = {
    "global_summary": "",
    "state": {},
    "source_hash": "",
    "retained": {"kept": [], "lost": [], "share": 0.0},
    "soft_faults": [],
    "is_wanting": False,
}
"""The values of an emptied revision: no text, and no hash from which a short text could be guessed."""

_CLEARED = Q(kind=RevisionKind.MANUAL, tokens_after=0, global_summary="")


def step_back(brief: ConversationBrief, from_seq: int) -> None:
    """Make the newest revision that had seen no message from `from_seq` on the one in use, or none. Saves nothing."""
    older = _cleared_since(brief, from_seq) or newest_before(brief.chat_key, from_seq)
    apply_revision(brief, older)
    brief.head = older.version if older else 0
    if brief.policy != brief.chat.policy:
        brief.requested = Requested.REBUILD


def retract(brief: ConversationBrief, from_seq: int) -> None:
    """Remove everything that memory made of messages from `from_seq` on from `brief` and its revisions.

    Saves revisions only, not the brief. If any of it was in use, a further revision is added, with the text of the
    older one.
    """
    before, had_seen = brief.token_count, from_seq <= brief.seen_seq
    brief.rebuild, brief.last_error = None, None  # an error may quote what the summarizer answered
    cleared = _cleared_since(brief, from_seq) if had_seen else None
    if cleared is not None and cleared.version == brief.head:
        had_seen = False  # the memory in use is empty
    if had_seen:
        step_back(brief, from_seq)
    revisions = SummaryRevision.objects.filter(**brief.chat_key.columns, forgotten_at=None)
    seen = revisions.filter(seen_seq__gte=from_seq)
    seen.exclude(_CLEARED).update(**_EMPTIED, forgotten_at=Now())
    seen.filter(_CLEARED).update(**_EMPTIED)  # what it had cleared; the clearing itself stays
    if had_seen:
        retained = {"kept": [], "lost": [], "share": 1.0}
        parent = brief.head or None
        SummaryRevision.add(brief, kind=RevisionKind.RETRACT, parent=parent, tokens_before=before, retained=retained)


def apply_revision(brief: ConversationBrief, older: SummaryRevision | None) -> None:
    """Give `brief` the text and position of `older`; None: an empty memory by the chat's policy. Saves nothing."""
    older = older or SummaryRevision(policy=brief.chat.policy, through_seq=0)
    brief.policy, brief.degraded, brief.rebuild = older.policy, older.degraded, None
    brief.global_summary, brief.state = older.global_summary, older.state
    brief.token_count = POLICIES[brief.policy].size(State.from_json(older.global_summary, older.state))
    brief.kept_percent = older.kept_percent
    brief.folded_through_seq, brief.folded_tokens = older.through_seq, older.folded_tokens
    brief.seen_seq = older.seen_seq
    replies = Message.objects.filter(**brief.chat_key.columns, role=Role.ASSISTANT, superseded_by=None)
    finished = replies.exclude(status__in=[Status.FAILED, Status.DELETED])
    folded = finished.filter(seq__lte=brief.folded_through_seq).order_by("-seq")
    brief.last_summarized_message_id = folded.values_list("pk", flat=True).first()


def _cleared_since(brief: ConversationBrief, from_seq: int) -> SummaryRevision | None:
    """The newest clearing since `from_seq` that the memory in use is based on. Reads the revisions since then.

    A clearing that was undone later, by restoring an older version or by a rebuild, does not count.
    """
    revisions = SummaryRevision.objects.filter(**brief.chat_key.columns)
    # `seen_seq` bounds what is read; a clearing has seen what the version that it cleared had.
    cleared = {row.version: row for row in revisions.filter(_CLEARED, seen_seq__gte=from_seq)}
    if not cleared:
        return None
    since = revisions.filter(version__gte=min(cleared)).values_list("version", "parent", "kind")
    parents = {version: parent for version, parent, kind in since if kind != RevisionKind.REBUILD}
    version: int | None = brief.head
    while version is not None and version not in cleared:
        version = parents.get(version)
    return cleared.get(version or 0)


def newest_before(chat: ChatKey, from_seq: int) -> SummaryRevision | None:
    """The newest revision that had not seen `from_seq`, skipping those that end with the card of a replaced answer.

    Reads only the revisions since, whatever the chat's length.
    """
    replaced = Message.objects.filter(**chat.columns, seq=OuterRef("seen_seq"), superseded_by__isnull=False)
    # `+ 0`, or SQLite takes all older revisions from the index of `seen_seq`, and sorts them.
    revisions = SummaryRevision.objects.filter(**chat.columns, forgotten_at=None).alias(seen=F("seen_seq") + 0)
    return revisions.filter(seen__lt=from_seq).exclude(Exists(replaced)).order_by("-version").first()
