"""The figures of a new version of a chat's memory, for its app's webhook and for streams that ask for them.

Both get the same figures. Only the chat's own streams have the values that were lost, because these are texts.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import Subquery
from django.db.models.functions import Coalesce
from rest_framework.serializers import BooleanField, CharField, IntegerField, ListField

from chatmemory.api.fields import Strict
from chatmemory.database.owned import ChatKey
from chatmemory.text.tokens import ENCODING
from conversations.models import Message
from memory.models import ContextRecord, SummaryRevision

LAST_SEQ = 2**31 - 1
MAX_SENT = 20
"""The most versions that a stream has at its beginning, the newest."""


class LinksOut(Strict):
    chat = CharField(help_text="Of the chat.")
    difference = CharField(help_text="Of what changed from its parent to it.")


class MemoryUpdatedOut(Strict):
    version = IntegerField(min_value=0, help_text="The number of the version.")
    kind = CharField(help_text="What made it, as in the list of versions: `fold`, `rebuild` and others.")
    turns = IntegerField(min_value=0, help_text="Turns that were summarized into it.")
    from_seq = IntegerField(min_value=0, help_text="The first message that was summarized into it.")
    through_seq = IntegerField(min_value=0, help_text="The last message; before `from_seq` if there was none.")
    tokens_before = IntegerField(min_value=0, help_text="Input tokens: the previous memory and the messages.")
    tokens_after = IntegerField(min_value=0, help_text="Tokens of the memory after it.")
    counted_with = CharField(help_text="The encoding that all our tokens are counted with.")
    kept_count = IntegerField(min_value=0, help_text="Numbers, ids and names that it kept, of at most 200.")
    lost_count = IntegerField(min_value=0, help_text="Numbers, ids and names that it lost, of at most 200.")
    degraded = BooleanField(help_text="Whether the built-in summarizer made it.")
    links = LinksOut(help_text="Paths on this server.")
    lost = ListField(child=CharField(), help_text="What it did not keep.")

    def to_representation(self, instance: SummaryRevision) -> dict[str, Any]:
        chat, retained = f"/v1/chats/{instance.chat_id}", instance.retained
        derived = {
            "counted_with": ENCODING,
            "kept_count": len(retained.get("kept", ())),
            "lost_count": len(retained.get("lost", ())),
            "links": {"chat": chat, "difference": f"{chat}/revisions/{instance.version}/diff"},
            "lost": retained.get("lost", ()),
        }
        shown: dict[str, Any] = super().to_representation(vars(instance) | derived)
        return shown


def figures(revision: SummaryRevision) -> dict[str, Any]:
    """Return what a webhook tells of a new version: the same without the values that were lost, which are texts."""
    return {name: value for name, value in MemoryUpdatedOut(revision).data.items() if name != "lost"}


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
