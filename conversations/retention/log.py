"""The log of erasures: written with each (`Erased`), printed, and replayed in a database restored from a backup.

A replay erases by the same functions that erased before, so that nothing is left half erased, and it may be repeated.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.contrib.auth.models import User

from conversations import account_deletion, chat_lifecycle, message_changes
from conversations.models import Chat, Erased, Message, Status

BATCH = 500
"""Entries of a replay that are looked up at once."""


class LoggedErasure(NamedTuple):
    """What was erased."""

    kind: Erased.Kind
    object_id: str


def lines(since: datetime | None) -> Iterator[str]:
    """Yield the log as lines of JSON, oldest first."""
    rows = Erased.objects.order_by("at", "pk")
    for row in (rows.filter(at__gte=since) if since else rows).iterator():
        yield json.dumps({"kind": row.kind, "id": row.object_id, "at": row.at.isoformat()})


def read(text: Sequence[str]) -> list[LoggedErasure]:
    """Read lines of the log. Raises `ValueError` with the number of the first that is none."""
    entries = []
    for number, line in enumerate(text, start=1):
        try:
            entries += [_entry(json.loads(line))] if line.strip() else []
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ValueError(f"Line {number} is not a line of the log.") from None
    return entries


def _entry(fields: dict[str, str]) -> LoggedErasure:
    kind, object_id = Erased.Kind(fields["kind"]), fields["id"]
    if kind is Erased.Kind.USER:
        number, joined = object_id.split()
        int(number), datetime.fromisoformat(joined)
        return LoggedErasure(kind, object_id)
    return LoggedErasure(kind, str(UUID(object_id)))


def replay(entries: Sequence[LoggedErasure]) -> Iterator[tuple[int, int]]:
    """Erase again what is there of these. Yields, for each batch, how many were erased, and how many were gone.

    Those that were gone are logged, too, so that the log of the restored database is as whole as the one replayed.
    Raises `ChatBusy` if a message cannot be erased yet.
    """
    for at in range(0, len(entries), BATCH):
        batch = entries[at : at + BATCH]
        erased = _erase(batch)
        for kind in Erased.Kind:
            Erased.log(kind, *(one.object_id for one in batch if one.kind == kind))
        yield erased, len(batch) - erased


def _erase(batch: Sequence[LoggedErasure]) -> int:
    """Erase those of these that are there; return how many."""
    ids = {kind: [one.object_id for one in batch if one.kind == kind] for kind in Erased.Kind}
    erased = 0
    for user in User.objects.filter(pk__in=[one.split()[0] for one in ids[Erased.Kind.USER]]):
        if Erased.user_id(user) in ids[Erased.Kind.USER]:
            account_deletion.request_erasure(user.pk)
            account_deletion.erase(user.pk)
            erased += 1
    chats = Chat.objects.filter(pk__in=ids[Erased.Kind.CHAT])
    erased += chat_lifecycle.delete_chats(chats, list(chats.values_list("pk", flat=True)))
    there = Message.objects.filter(pk__in=ids[Erased.Kind.MESSAGE]).exclude(status=Status.DELETED)
    for chat_id, message_id in list(there.values_list("chat_id", "pk")):
        message_changes.forget_message(chat_id, message_id)
        erased += 1
    return erased
