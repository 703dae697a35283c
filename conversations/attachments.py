"""Store bytes of images and files once per user, by hash, within a size limit, for a time after they were last sent.

They are stored and read in pieces, so that an image never has to be in memory whole. A message names its attachments
by hash (`chatmemory.llm.attachments`). Bytes are deleted in the same transaction as the last message that refers to
them. When bytes expire earlier, their mark in the message's text stays.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from math import ceil
from tempfile import TemporaryFile
from uuid import UUID
from weakref import finalize

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, transaction
from django.db.models import Sum
from django.utils import timezone

from chatmemory.database import executors
from chatmemory.llm.attachments import PIECE_BYTES, Attachment, slices
from chatmemory.llm.protocol import Prompt
from conversations.models import AttachmentLink, AttachmentPiece, Chat, Message, StoredAttachment

REMOVED_AT_ONCE = 50
STORED_AT_ONCE = 4
"""Pieces written by one statement: on PostgreSQL its text is more than twice as long as they are."""


@dataclass(frozen=True, eq=False)
class Bytes:
    """Bytes of `size`, of which `read` returns the piece of a number: each is read when it is needed."""

    size: int
    read: Callable[[int], bytes]

    def __iter__(self) -> Iterator[bytes]:
        return map(self.read, range(ceil(self.size / PIECE_BYTES)))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for number in range(ceil(self.size / PIECE_BYTES)):
            yield await executors.read(self.read, number)


def stored_bytes(owner_id: int, attachment_id: UUID, size: int) -> Bytes:
    """Return the bytes of a stored attachment. To read them raises `DoesNotExist` if it was deleted meanwhile."""
    pieces = AttachmentPiece.objects.filter(owner_id=owner_id, attachment=attachment_id)
    return Bytes(size, lambda number: bytes(pieces.values_list("data", flat=True).get(number=number)))


def spooled(attachment: Attachment) -> Attachment:
    """Return an attachment that is not stored, with its bytes in a file instead of in memory if they are many."""
    if attachment.data is None or attachment.size <= PIECE_BYTES:
        return attachment
    file = TemporaryFile(buffering=0)  # noqa: SIM115 - closed when nothing refers to its bytes any more
    file.writelines(slices(attachment.data))
    pieces = Bytes(attachment.size, lambda number: os.pread(file.fileno(), PIECE_BYTES, number * PIECE_BYTES))
    finalize(pieces, file.close)
    return replace(attachment, data=None, pieces=pieces)


def store(user_id: int, sent: Sequence[tuple[Message, Sequence[Attachment]]]) -> None:
    """Store the attachments of these stored messages; of those without their bytes, only which messages have them.

    Call it in the transaction that stores the messages.
    """
    by_hash = {one.sha256: one for _, attachments in sent for one in attachments if one.data is not None}
    hashes = {one.sha256 for _, attachments in sent for one in attachments if one.sha256}
    if not hashes:
        return
    now = timezone.now()
    mine = StoredAttachment.objects.filter(user=user_id)
    rows = [
        StoredAttachment(user_id=user_id, sha256=sha256, media_type=one.media_type, size=one.size, sent_at=now)
        for sha256, one in sorted(by_hash.items())
    ]
    # It locks the rows that exist, so that the sweep cannot remove them until this transaction ends.
    StoredAttachment.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["user", "sha256"], update_fields=["sent_at"]
    )
    for row in mine.filter(pk__in=[row.pk for row in rows]):  # the new ones
        pieces = enumerate(slices(by_hash[row.sha256].data or b""))
        while some := list(islice(pieces, STORED_AT_ONCE)):
            AttachmentPiece.objects.bulk_create(
                AttachmentPiece(attachment=row, number=number, data=data) for number, data in some
            )
    ids = dict(mine.filter(sha256__in=hashes).values_list("sha256", "pk"))
    links = {(ids[one.sha256], message.pk) for message, them in sent for one in them if one.sha256 in ids}
    AttachmentLink.objects.bulk_create(
        (
            AttachmentLink(storedattachment_id=one, message_id=message, owner_id=user_id)
            for one, message in sorted(links)
        ),
        ignore_conflicts=True,
    )
    _keep_within_cap(user_id, set(ids.values()))


def stored(user_id: int, attachments: Iterable[Attachment]) -> dict[str, Bytes]:
    """Return the stored attachments among these, by hash."""
    hashes = {one.sha256 for one in attachments if one.sha256}
    rows = StoredAttachment.objects.filter(user=user_id, sha256__in=hashes)
    found = rows.values_list("sha256", "pk", "size")
    return {sha256: stored_bytes(user_id, pk, size) for sha256, pk, size in found}


def find(chat: Chat, sha256: str) -> StoredAttachment | None:
    """Return an image or a file of a message of `chat`, if its bytes are still stored."""
    mine = StoredAttachment.objects.filter(user=chat.owner_id, sha256=sha256)
    return mine.filter(messages__chat=chat).first()


def with_bytes(prompt: Prompt, user_id: int) -> Prompt:
    """Return `prompt` with its images and files, whose bytes are read while they are sent.

    Expired ones are left out; their mark stays.
    """
    if not prompt.attachments:
        return prompt
    found = stored(user_id, prompt.attachments)
    messages = tuple(
        replace(
            message,
            attachments=tuple(
                replace(one, pieces=found.get(one.sha256))
                for one in message.attachments
                if one.url or one.sha256 in found
            ),
        )
        for message in prompt.messages
    )
    return replace(prompt, messages=messages)


def release(message: Message, kept: Sequence[Attachment] = ()) -> None:
    """Drop the references to a message's attachments, except those in `kept`.

    Call it in the transaction that changes the message.
    """
    links, hashes = AttachmentLink.objects.filter(message=message), [one.sha256 for one in kept]
    if kept:
        mine = StoredAttachment.objects.filter(user=message.owner_id)
        links = links.exclude(storedattachment__in=mine.filter(sha256__in=hashes))
    if links.delete()[0]:
        _remove_unused(message.owner_id)


def release_chat(chat: Chat) -> None:
    """Drop the references of all messages of a chat that is about to be deleted."""
    if StoredAttachment.objects.filter(user=chat.owner_id).exists():
        mine = AttachmentLink.objects.filter(owner_id=chat.owner_id)
        mine.filter(message__in=Message.objects.filter(chat=chat)).delete()
        _remove_unused(chat.owner_id)


def remove_old() -> int:
    """Remove what was last sent longer ago than `ATTACHMENTS_KEEP_DAYS`; return how many. Called by the sweep."""
    days, removed = settings.ATTACHMENTS_KEEP_DAYS, 0
    if not days:
        return 0
    old = StoredAttachment.objects.filter(sent_at__lt=timezone.now() - timedelta(days=days))
    for user_id in list(old.values_list("user", flat=True).distinct()):
        left = True
        while left:
            with transaction.atomic():
                # One that is being sent again is locked, and no longer old once that transaction ends.
                unlocked = old.filter(user=user_id).select_for_update(skip_locked=True)
                ids = list(unlocked.values_list("pk", flat=True)[:REMOVED_AT_ONCE])
                _remove(user_id, ids)
            removed += len(ids)
            left = len(ids) == REMOVED_AT_ONCE
    return removed


def _keep_within_cap(user_id: int, just_sent: set[UUID]) -> None:
    """Remove the attachments sent longest ago until the user is within the limit. Those just sent are kept."""
    mine = StoredAttachment.objects.filter(user=user_id)
    over = (mine.aggregate(total=Sum("size"))["total"] or 0) - settings.ATTACHMENTS_MAX_BYTES_PER_USER
    gone: list[UUID] = []
    for one, size in mine.exclude(pk__in=just_sent).order_by("sent_at", "pk").values_list("pk", "size"):
        if over <= 0:
            break
        gone.append(one)
        over -= size
    _remove(user_id, gone)


def _remove_unused(user_id: int) -> None:
    unused = StoredAttachment.objects.filter(user=user_id, messages=None)
    _remove(user_id, list(unused.values_list("pk", flat=True)))


def _remove(user_id: int, ids: Sequence[UUID]) -> None:
    """Delete these without reading them first, as the ORM would."""
    if ids:
        AttachmentPiece.objects.filter(owner_id=user_id, attachment__in=ids)._raw_delete(DEFAULT_DB_ALIAS)
        AttachmentLink.objects.filter(owner_id=user_id, storedattachment__in=ids).delete()
        StoredAttachment.objects.filter(user=user_id, pk__in=ids)._raw_delete(DEFAULT_DB_ALIAS)
