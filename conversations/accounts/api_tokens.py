"""Issue, list and revoke API tokens. A revocation takes effect with the next request, in every process.

A token is looked up for each request, so other processes need no notice. Signals of the user model revoke all tokens
of a user when the password changes, by any route (the admin, `changepassword`, code). Only a password that is written
past Django's models (`QuerySet.update`, SQL) revokes nothing.
"""

import logging
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from allauth.idp.oidc.models import Token as AgentToken
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.hashers import get_hasher, identify_hasher
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Left
from django.utils import timezone
from knox.models import AuthToken

from chatmemory.database.rows import in_chunks
from conversations.accounts.models import Scope, TokenGrant

logger = logging.getLogger(__name__)

ID_LENGTH = 16
ID_PATTERN = f"[0-9a-f]{{{ID_LENGTH}}}"
"""Pattern of a token's public id, which is the start of its digest: not a credential, nor enough to derive one."""
PREFIX_LENGTH = 8
"""Number of characters of a token that its owner is shown. The other 56 of 64 cannot be guessed."""
LIFETIME_DAYS = 30
"""Lifetime of a token created with a password, over the API."""


def issue(
    user: User, lifetime: timedelta | None, name: str = "", scopes: Collection[str] = ()
) -> tuple[AuthToken, str] | None:
    """Create a token for a user whose password, if they have one, was just checked; return it with its text.

    Its scope is `Scope.CHAT` if none is given, or only `Scope.REMEMBER_NAMED`, which then adds to it. Return None if
    the password has changed since or the account is no longer active. A password change revokes all tokens, and no
    token may be created after it with the former password.
    """
    if {*scopes} == {Scope.REMEMBER_NAMED}:
        scopes = (Scope.CHAT, Scope.REMEMBER_NAMED)
    with transaction.atomic():
        same = User.objects.select_for_update().filter(pk=user.pk, password=user.password, is_active=True)
        if same.first() is None:
            return None
        token, text = AuthToken.objects.create(user, expiry=lifetime)
        if name or scopes:
            TokenGrant.objects.create(token=token, name=name, scopes=sorted(scopes))
        return token, str(text)


def scopes_of(auth: object) -> Collection[str]:
    """Return the scopes of a request's `auth`: a token's own, or all that the user of a session may do."""
    grant = getattr(auth, "grant", None)
    return (grant and grant.scopes) or (Scope.CHAT,)


def valid_tokens(user_id: int) -> QuerySet[Any]:
    """Return the tokens of a user that have not expired."""
    valid: QuerySet[Any] = AuthToken.objects.filter(user=user_id).exclude(expiry__lt=timezone.now())
    return valid.prefetch_related("grant")


def id_of(token: AuthToken) -> str:
    """The public id by which an owner refers to a token."""
    return str(token.digest)[:ID_LENGTH]


def prefix_of(token: AuthToken) -> str:
    """The first characters of a token, by which its owner recognizes it."""
    return str(token.token_key)[:PREFIX_LENGTH]


def revoke(user_id: int, public_ids: Collection[str] | None = None) -> int:
    """Revoke all tokens of a user, with their agents', or those with these public ids; return how many were ours."""
    tokens = AuthToken.objects.filter(user=user_id)
    if public_ids is None:
        while AgentToken.objects.filter(user=user_id).delete()[0]:  # again: one may just have been exchanged
            pass
    else:
        tokens = tokens.annotate(public_id=Left("digest", ID_LENGTH)).filter(public_id__in=public_ids)
    count: int = tokens.delete()[0]
    if count:
        logger.info("tokens revoked", extra={"user": user_id, "count": count})
    return count


def end_sessions(user_id: int, but: str | None = None) -> int:
    """End all sessions of a user, but the one of this key; return how many.

    A session's user is only known after decoding it, so all sessions are read: those of the people
    who use pages, not of clients.
    """
    count = 0
    for session in in_chunks(Session.objects.exclude(pk=but).order_by("pk")):
        if session.get_decoded().get(SESSION_KEY) == str(user_id):
            session.delete()
            count += 1
    return count


# Revocation at a change of password

_CHANGED = "_password_was_changed"
"""Marks a user instance between its `pre_save` and `post_save` signals."""


def before_user_saved(
    instance: User, raw: bool = False, update_fields: frozenset[str] | None = None, **_: object
) -> None:
    """Revoke before the new password is stored, so that tokens are gone even if the process ends in between."""
    is_written = update_fields is None or "password" in update_fields
    if raw or instance._state.adding or not is_written:
        return
    stored = User.objects.filter(pk=instance.pk).values_list("password", flat=True).first()
    if stored is None or stored == instance.password or _is_rehash(instance, stored, update_fields):
        return
    instance.__dict__[_CHANGED] = True
    revoke(instance.pk)


def after_user_saved(instance: User, **_: object) -> None:
    """Revoke once more: a sign-in with the former password may have come in between. See `issue`."""
    if instance.__dict__.pop(_CHANGED, False):
        revoke(instance.pk)


def _is_rehash(user: User, stored: str, update_fields: frozenset[str] | None) -> bool:
    """Whether the same password is being rehashed at a sign-in because Django's preferred hasher has changed."""
    was_set = getattr(user, "_password", None) is not None  # the check that Django's own `save` makes
    if update_fields != frozenset({"password"}) or was_set or not user.has_usable_password():
        return False
    try:
        before = identify_hasher(stored)
    except ValueError:
        return False
    preferred = get_hasher()
    return before.algorithm != preferred.algorithm or preferred.must_update(stored)
