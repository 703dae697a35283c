"""API tokens: issued, listed and revoked. What revokes them takes effect with the next request, on every process.

A token is looked up for each request, so there is nothing to tell other processes. A change of password revokes all
tokens of its user, whoever makes it (the admin, `changepassword`, code): signals of the user's row see to that. Only a
password that is written past Django's models (`QuerySet.update`, SQL) revokes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.auth.hashers import get_hasher, identify_hasher
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Left
from django.utils import timezone
from knox.models import AuthToken

logger = logging.getLogger(__name__)

ID_LENGTH = 16
ID_PATTERN = f"[0-9a-f]{{{ID_LENGTH}}}"
"""The id of a token is the beginning of its digest: nobody can call with it, nor tell the token from it."""
PREFIX_LENGTH = 8
"""Characters of a token that its owner is shown. What is left, 56 of 64, cannot be guessed."""
SESSIONS_AT_ONCE = 100


def issue(user: User, lifetime: timedelta | None) -> tuple[AuthToken, str] | None:
    """A new token of somebody whose password was just checked, and its text.

    None if that password, or the account's being active, is no longer so: whoever changes it revokes all tokens, and
    this one must not come after.
    """
    with transaction.atomic():
        same = User.objects.select_for_update().filter(pk=user.pk, password=user.password, is_active=True)
        if same.first() is None:
            return None
        token, text = AuthToken.objects.create(user, expiry=lifetime)
        return token, str(text)


def valid_tokens(user_id: int) -> QuerySet[Any]:
    """The tokens that somebody can call with."""
    valid: QuerySet[Any] = AuthToken.objects.filter(user=user_id).exclude(expiry__lt=timezone.now())
    return valid


def id_of(token: AuthToken) -> str:
    """What names the token to its owner."""
    return str(token.digest)[:ID_LENGTH]


def prefix_of(token: AuthToken) -> str:
    """The first characters of the token, to recognize it by."""
    return str(token.token_key)[:PREFIX_LENGTH]


def revoke(user_id: int, public_ids: Collection[str] | None = None) -> int:
    """Revoke all tokens of a user, or those with these ids; how many there were."""
    tokens = AuthToken.objects.filter(user=user_id)
    if public_ids is not None:
        tokens = tokens.annotate(public_id=Left("digest", ID_LENGTH)).filter(public_id__in=public_ids)
    count: int = tokens.delete()[0]
    if count:
        logger.info("tokens revoked", extra={"user": user_id, "count": count})
    return count


def end_sessions(user_id: int) -> int:
    """End all sessions of a user; how many. Whose a session is shows only on opening it; there are few, of staff."""
    count = 0
    for session in Session.objects.iterator(chunk_size=SESSIONS_AT_ONCE):
        if session.get_decoded().get(SESSION_KEY) == str(user_id):
            session.delete()
            count += 1
    return count


# At a change of password

_CHANGED = "_password_was_changed"
"""Set on a user between the two signals of being saved."""


def before_user_saved(
    instance: User, raw: bool = False, update_fields: frozenset[str] | None = None, **_: Any
) -> None:
    """Revoke before a new password is stored: should the process end in between, the tokens are gone all the same."""
    is_written = update_fields is None or "password" in update_fields
    if raw or instance._state.adding or not is_written:
        return
    stored = User.objects.filter(pk=instance.pk).values_list("password", flat=True).first()
    if stored is None or stored == instance.password or _is_rehash(instance, stored, update_fields):
        return
    instance.__dict__[_CHANGED] = True
    revoke(instance.pk)


def after_user_saved(instance: User, **_: Any) -> None:
    """Revoke once more: somebody may have signed in with the former password in between. See `issue`."""
    if instance.__dict__.pop(_CHANGED, False):
        revoke(instance.pk)


def _is_rehash(user: User, stored: str, update_fields: frozenset[str] | None) -> bool:
    """Whether it is the same password, hashed anew at a sign-in because Django now hashes otherwise."""
    was_set = getattr(user, "_password", None) is not None  # as Django's own `save` asks
    if update_fields != frozenset({"password"}) or was_set or not user.has_usable_password():
        return False
    try:
        before = identify_hasher(stored)
    except ValueError:
        return False
    preferred = get_hasher()
    return before.algorithm != preferred.algorithm or preferred.must_update(stored)
