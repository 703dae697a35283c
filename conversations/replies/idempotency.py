"""Idempotency keys: a request sent again begins no second turn, but gets the reply that the first one began.

A key is stored in the transaction of its turn, so neither exists without the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.db.models.functions import Now

from chatmemory.errors import IdempotencyMismatch
from conversations.models import IdempotencyKey
from conversations.replies.finish import Pending

KEY_LIFETIME = timedelta(hours=24)
"""After this time a key may be used for another request. The sweep removes it."""

IS_OLD = Q(created_at__lt=Now() - KEY_LIFETIME)
"""By the database's clock, as servers' clocks may differ."""


@dataclass(frozen=True, slots=True)
class ExistingReply:
    """A reply that already exists, final or being written, and can be followed."""

    chat_id: UUID
    user_message_id: UUID
    message_id: UUID


def known_turn(user: User, key: str, fingerprint: str) -> ExistingReply | None:
    """Return the turn made with this idempotency key, or None. Raises `IdempotencyMismatch` for a different request."""
    if not key:
        return None
    is_old = ExpressionWrapper(IS_OLD, output_field=BooleanField())
    row = IdempotencyKey.objects.annotate(is_old=is_old).filter(user=user, key=key).first()
    if row is None:
        return None
    if row.is_old:
        row.delete()
        return None
    if row.request_hash != fingerprint:
        raise IdempotencyMismatch("This idempotency key was used with another request.")
    return ExistingReply(row.chat_id, row.user_message_id, row.message_id)


def remember(user: User, key: str, fingerprint: str, pending: Pending) -> None:
    """Store the key, if any, with which a turn was begun. Raises `IntegrityError` if another request was first."""
    if key:
        IdempotencyKey.objects.create(
            user=user,
            key=key,
            request_hash=fingerprint,
            chat_id=pending.chat_id,
            user_message_id=pending.user_message.pk,
            message_id=pending.message_id,
            created_at=Now(),
        )
