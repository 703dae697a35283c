"""Which of a user's chats a request asks for: by metadata, by the time of their last message, by title.

Metadata is found by its members at the top level whose values are no objects or lists, each as one hash of key and
value. So the index has rows of one width, and no content of a chat. Each chat has few: see `MAX_INDEXED`.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from itertools import islice
from typing import Any

from django.contrib.auth.models import User
from django.db.models import F, QuerySet

from conversations.models import Chat, ChatMetadata

Member = tuple[str, str]
"""A key of metadata, and its value as a URL has it: a string as it is, and JSON for any other."""


def pair_of(member: Member) -> str:
    """The hash that stands for a member."""
    return blake2b(json.dumps(member).encode(), digest_size=16).hexdigest()


MAX_INDEXED = 64
"""By how many members of its metadata a chat is found; OpenAI allows 16 in all."""


def pairs_of(metadata: Mapping[str, Any]) -> set[str]:
    """The hashes by which a chat with this metadata is found."""
    members = ((key, value) for key, value in metadata.items() if not isinstance(value, dict | list))
    return {
        pair_of((key, value if isinstance(value, str) else json.dumps(value)))
        for key, value in islice(members, MAX_INDEXED)
    }


def index_metadata(chat: Chat) -> None:
    """Make a chat findable by the metadata that it has now. Call it in the transaction that stores them."""
    wanted = pairs_of(chat.metadata)
    rows = ChatMetadata.objects.filter(owner=chat.owner_id, chat=chat)
    known = set(rows.values_list("pair", flat=True))
    if gone := known - wanted:
        rows.filter(pair__in=gone).delete()
    ChatMetadata.objects.bulk_create(
        ChatMetadata(chat=chat, owner_id=chat.owner_id, pair=pair) for pair in wanted - known
    )


def is_member_known(owner: User, member: Member) -> bool:
    """Whether any chat of the owner has this member."""
    return ChatMetadata.objects.filter(owner=owner, pair=pair_of(member)).exists()


def chats_of(
    owner: User,
    *,
    title: str = "",
    members: Sequence[Member] = (),
    since: datetime | None = None,
    until: datetime | None = None,
    project: str | None = None,
) -> QuerySet[Chat]:
    """The owner's chats that match all of these, none of them temporary: words of the title, members of the metadata,
    the last message from `since` on and before `until`, the project ("" for chats without one).

    They are to be sorted by their `place`, newest last. That is the column by which the database has them in order:
    with metadata that of its index, along which SQLite then reads a page, however many chats match.
    """
    chats = Chat.objects.filter(owner=owner) if not members else Chat.objects.all()
    for member in members:
        chats = chats.filter(pairs__owner=owner, pairs__pair=pair_of(member))
    if title:
        chats = chats.filter(title__icontains=title)
    if since:
        chats = chats.filter(last_message_at__gte=since)
    if until:
        chats = chats.filter(last_message_at__lt=until)
    if project is not None:
        chats = chats.filter(project=project)
    return chats.filter(temporary=False).annotate(place=F("pairs__chat" if members else "pk"))
