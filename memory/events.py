"""What a new version of a chat's memory is, for its app's webhook, and for streams that ask for it.

Both get the same figures. The values that were lost are texts, so only the chat's own streams have them.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import Subquery
from django.db.models.functions import Coalesce

from chatmemory.database.owned import ChatKey
from chatmemory.text.tokens import ENCODING
from conversations.models import Message
from memory.models import ContextRecord, SummaryRevision

LAST_SEQ = 2**31 - 1
MAX_SENT = 20
"""The most versions that a stream has at its beginning, the newest."""


def figures(revision: SummaryRevision) -> dict[str, Any]:
    """What a new version is: its size before and after, what it covers, and how many details it kept and lost."""
    chat = f"/v1/chats/{revision.chat_id}"
    return {
        "version": revision.version,
        "kind": str(revision.kind),
        "turns": revision.turns,
        "from_seq": revision.from_seq,
        "through_seq": revision.through_seq,
        "tokens_before": revision.tokens_before,
        "tokens_after": revision.tokens_after,
        "counted_with": ENCODING,
        "kept_count": len(revision.retained.get("kept", ())),
        "lost_count": len(revision.retained.get("lost", ())),
        "degraded": revision.degraded,
        "links": {"chat": chat, "difference": f"{chat}/revisions/{revision.version}/diff"},
    }


def figures_and_losses(revision: SummaryRevision) -> dict[str, Any]:
    """The same for a stream, with the values that were lost."""
    return figures(revision) | {"lost": list(revision.retained.get("lost", ()))}


def since_last_prompt(chat: ChatKey, reply_id: UUID) -> Sequence[SummaryRevision]:
    """Versions that are newer than what the model was sent for the reply before this one, oldest first.

    None for the first reply: versions of an imported or sample chat are no news to its reader.
    """
    own = {"owner_id": chat.owner_id}
    seq = Message.objects.filter(pk=reply_id, **own).values("seq")  # none while it is written
    before = ContextRecord.objects.filter(reply__chat_id=chat.id, **own).exclude(reply=reply_id)
    before = before.filter(reply__seq__lt=Coalesce(Subquery(seq), LAST_SEQ)).order_by("-reply__seq")
    newer = SummaryRevision.objects.filter(
        **chat.columns, version__gt=Coalesce(Subquery(before.values("revision")[:1]), LAST_SEQ)
    )
    return list(newer.order_by("-version")[:MAX_SENT])[::-1]
