"""The messages of a scope's chats in one order, so that a question finds them however many chats there are.

A turn adds its messages when it ends. What was said before a person shared anything, or is added in other ways, such as
by an import, the sweep adds within about a minute. Nothing here decides what may be quoted: the reader checks that
(`memory.recall.question_search.Corpus`).
"""

import time
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef

from chatmemory.database.owned import ChatKey
from conversations.models import TEXT_STATUSES, Across, Chat, Message, lock_chat
from memory.across.consent import level_of
from memory.models import FIRST_CHAT, MemoryScope, ScopedMessage

BATCH = 500
"""Messages that are added in one transaction."""
SCOPES = 1_000
"""Scopes that one call goes through."""


def add_turn(chat: ChatKey, from_seq: int, through_seq: int) -> None:
    """Add the messages of a turn. Call it in the transaction that ends the turn, which has locked the chat."""
    project = Chat.objects.filter(pk=chat.id, owner=chat.owner_id).values_list("project", flat=True).get()
    _add(chat, project, from_seq, through_seq)


def message_changed(message: Message) -> None:
    """Have what a message says now found, and no longer what it said. Call it in the transaction that changes it."""
    if ScopedMessage.objects.filter(**message.chat_key.columns, seq=message.seq).delete()[0]:
        add_turn(message.chat_key, message.seq, message.seq)


def sharing_changed(chat: Chat) -> None:
    """Take out what was said in a chat that now shares something else. The sweep adds it to the scope that it is in."""
    ScopedMessage.objects.filter(chat=chat).delete()
    have_filled(chat)


def have_filled(chat: Chat) -> None:
    """Have the sweep add what is missing of a chat, if it shares what is said."""
    if level_of(chat) == Across.ALL:
        defaults = {"fill_after": FIRST_CHAT}
        MemoryScope.objects.update_or_create(owner_id=chat.owner_id, project=chat.project, defaults=defaults)


def fill(seconds: float | None = None) -> int:
    """Go through the chats of scopes that lack messages, or whose owner shares nothing any more, for about `seconds`.

    Return how many chats were looked at.
    """
    until = None if seconds is None else time.monotonic() + seconds
    done = 0
    for scope in MemoryScope.objects.filter(fill_after__isnull=False).order_by("pk")[:SCOPES]:
        this = MemoryScope.objects.filter(pk=scope.pk, owner=scope.owner_id)
        after = scope.fill_after
        while chat := _next_chat(scope, after):
            _fill_chat(chat)
            after, done = chat.pk, done + 1
            if until is not None and time.monotonic() > until:
                this.filter(fill_after=scope.fill_after).update(fill_after=after)
                return done
        this.filter(fill_after=scope.fill_after).update(fill_after=None)
    return done


def _next_chat(scope: MemoryScope, after: UUID | None) -> Chat | None:
    chats = Chat.objects.filter(owner=scope.owner_id, project=scope.project, temporary=False, pk__gt=after)
    return chats.order_by("pk").first()


def _fill_chat(chat: Chat) -> None:
    """Add what is missing of a chat; remove all if it shares nothing that was said any more."""
    while True:
        with transaction.atomic():
            locked = lock_chat(chat.key)
            if locked is None:
                return
            if level_of(locked) != Across.ALL:
                ScopedMessage.objects.filter(chat=locked).delete()
                return
            if _add(locked.key, locked.project, 1, locked.last_seq) < BATCH:
                return


def _add(chat: ChatKey, project: str, from_seq: int, through_seq: int) -> int:
    """Add the messages of this span that are missing, `BATCH` at most; return how many. The chat is locked."""
    known = ScopedMessage.objects.filter(**chat.columns, seq=OuterRef("seq"))
    said = Message.objects.filter(**chat.columns, seq__range=(from_seq, through_seq), status__in=TEXT_STATUSES)
    rows = said.filter(~Exists(known), superseded_by=None, terms__gt="").order_by("seq").values_list("seq", "terms")
    new = list(rows[:BATCH])
    if new:
        MemoryScope.objects.get_or_create(owner_id=chat.owner_id, project=project)
        scope = MemoryScope.objects.select_for_update().get(owner=chat.owner_id, project=project)
        ScopedMessage.objects.bulk_create(
            ScopedMessage(**chat.columns, scope=scope, number=number, seq=seq, terms=terms or "")
            for number, (seq, terms) in enumerate(new, start=scope.last_number + 1)
        )
        scope.last_number += len(new)
        scope.save(update_fields=["last_number"])
    return len(new)
