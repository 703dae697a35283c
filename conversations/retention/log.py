"""The log of erasures: written with each (`Erased`), printed, and replayed in a database restored from a backup.

A replay erases by the same functions that erased before, so that nothing is left half erased, and it may be repeated.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import User

from conversations import account_deletion, chat_lifecycle, message_changes
from conversations.models import Chat, Message, Status
from conversations.retention.models import Erased

BATCH = 500
"""Ids of a replay that are looked up at once."""


def lines(since: datetime | None) -> Iterator[str]:
    """Yield the log as lines of JSON, oldest first."""
    rows = Erased.objects.order_by("at", "pk")
    for row in (rows.filter(at__gte=since) if since else rows).iterator():
        yield json.dumps({"kind": row.kind, "id": row.object_id, "at": row.at.isoformat()})


def read(text: Iterable[str]) -> dict[Erased.Kind, list[str]]:
    """Read lines of the log: the ids by kind. Raises `ValueError` with the number of the first that is none."""
    ids: dict[Erased.Kind, list[str]] = {kind: [] for kind in Erased.Kind}
    for number, line in enumerate(text, start=1):
        try:
            fields = json.loads(line)
            kind, object_id = Erased.Kind(fields["kind"]), fields["id"]
            if kind is Erased.Kind.USER:
                pk, joined = object_id.split()
                int(pk), datetime.fromisoformat(joined)
            else:
                object_id = str(UUID(object_id))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ValueError(f"Line {number} is not a line of the log.") from None
        ids[kind].append(object_id)
    return ids


def replay(ids: Mapping[Erased.Kind, Sequence[str]]) -> tuple[int, int]:
    """Erase again what is there of these; return how many were, and how many were gone.

    Those that were gone are logged, too, so that the log of the restored database is as whole as the one replayed.
    Raises `ChatBusy` if a message cannot be erased yet.
    """
    erased, functions = 0, (_erase_users, _erase_chats, _erase_messages)
    for kind, erase in zip((Erased.Kind.USER, Erased.Kind.CHAT, Erased.Kind.MESSAGE), functions, strict=True):
        for at in range(0, len(ids[kind]), BATCH):
            batch = ids[kind][at : at + BATCH]
            erased += erase(batch)
            Erased.log(kind, *batch)
    return erased, sum(map(len, ids.values())) - erased


def _erase_users(ids: Sequence[str]) -> int:
    users = User.objects.filter(pk__in=[one.split()[0] for one in ids])
    found = [user.pk for user in users if Erased.user_id(user) in ids]
    for pk in found:
        account_deletion.request_erasure(pk)
        account_deletion.erase(pk)
    return len(found)


def _erase_chats(ids: Sequence[str]) -> int:
    chats = Chat.objects.filter(pk__in=ids)
    return chat_lifecycle.delete_chats(chats, list(chats.values_list("pk", "owner_id")))


def _erase_messages(ids: Sequence[str]) -> int:
    there = Message.objects.filter(pk__in=ids).exclude(status=Status.DELETED)
    found = list(there.only("chat", "owner_id"))
    for message in found:
        message_changes.forget_message(message.chat_key, message.pk)
    return len(found)
