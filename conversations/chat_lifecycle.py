"""Create, change and delete chats."""

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import DEFAULT_DB_ALIAS, transaction
from django.db.models import CASCADE, QuerySet

from chatmemory.errors import NotFound
from chatmemory.runtime import fault_points
from chatmemory.runtime.tracing import memory_span
from conversations import attachments
from conversations.accounts import quotas
from conversations.accounts.end_users import app_id_of
from conversations.chat_filters import index_metadata
from conversations.models import ActiveReply, Chat, Message, lock_chat
from conversations.retention.models import Erased
from conversations.webhooks import outbox
from conversations.webhooks.models import WebhookEventType
from memory.changes import chat_deleted, is_by_another_policy, options_changed, policy_changed, sharing_changed


def create_chat(owner: User, **fields: Any) -> Chat:
    """Create an empty chat. `fields` are model fields that a client may set; `policy` has a default."""
    with transaction.atomic(savepoint=False):
        chat = Chat.objects.create(owner=owner, app_id=app_id_of(owner), **{"policy": settings.MEMORY_POLICY, **fields})
        if chat.metadata:
            index_metadata(chat)
    return chat


def update_chat(chat: Chat, changes: Mapping[str, Any]) -> Chat:
    """Change the fields that a client may set. A policy other than the memory's rebuilds it, as some options do.

    Raises `NotFound`, and `RateLimited` or `QuotaExceeded` if a rebuild exceeds the limits.
    """
    with transaction.atomic():
        locked = lock_chat(chat.key)
        if locked is None:
            raise NotFound("This chat no longer exists.")
        chat = locked
        new = {name for name, value in changes.items() if value != getattr(chat, name)}
        if "title" in new:
            changes = {**changes, "title_is_automatic": False}
        for name, value in changes.items():
            setattr(chat, name, value)
        chat.save(update_fields=[*changes, "updated_at"])
        if "metadata" in changes:
            index_metadata(chat)
        if new & {"project", "across"}:
            sharing_changed(chat)
        if "policy" in new or ("policy" in changes and is_by_another_policy(chat)):
            if chat.last_seq:
                quotas.take_rebuild(chat.owner_id)
            policy_changed(chat)
        elif "options" in new:
            options_changed(chat)
    return chat


def delete_chat(chat: Chat) -> None:
    """Delete a chat and everything derived from it, in one transaction. A reply being written is discarded.

    A statement per table, as a cascade would load every row, and there may be 100,000 messages.
    """
    with memory_span("delete_memory", chat.pk), transaction.atomic():
        locked = lock_chat(chat.key)
        if locked is not None:
            active = ActiveReply.objects.filter(chat=locked).first()
            chat_deleted(locked.key)
            attachments.release_chat(locked)
            for rows in _rows_of(locked):
                rows._raw_delete(DEFAULT_DB_ALIAS)
            if active is not None:
                # Its reservation counts as spent: the model was called and may still write.
                quotas.settle(locked.owner_id, active, active.reserved_tokens)
            Erased.log(Erased.Kind.CHAT, locked.pk)
            if locked.app_id is not None:  # after the memory is gone: nothing can be told of it any more
                outbox.record(locked.key, WebhookEventType.CHAT_DELETED, {"messages": locked.last_seq})
            Chat.objects.filter(pk=locked.pk, owner=locked.owner_id)._raw_delete(DEFAULT_DB_ALIAS)
            fault_points.point("delete.stored")


def _rows_of(chat: Chat) -> Iterator[QuerySet[Any]]:
    """All rows that refer to a chat, table by table; last its messages, to which others refer."""
    fields: list[Any] = [one for one in Chat._meta.get_fields(include_hidden=True) if not one.concrete]
    references = [one for one in fields if one.on_delete is CASCADE]
    for one in sorted(references, key=lambda one: one.related_model is Message):
        yield one.related_model._base_manager.filter(**{one.field.name: chat})


def delete_chats(chats: QuerySet[Chat], keys: Iterable[Iterable[Any]], until: float = math.inf) -> int:
    """Delete those with these keys and owners that are still among `chats`, each on its own; return how many.

    Stop at the moment `until` of `time.monotonic`.
    """
    deleted = 0
    for key, owner_id in keys:
        began = time.monotonic()
        if began > until:
            break
        with transaction.atomic():
            chat = chats.select_for_update(of=("self",)).filter(pk=key, owner=owner_id).first()
            if chat is not None:
                delete_chat(chat)
                deleted += 1
        if settings.IS_SQLITE:  # it has one writer, so pause as long as that took
            time.sleep(time.monotonic() - began)
    return deleted
