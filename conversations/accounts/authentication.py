"""Who makes a request: a bearer token, what its scopes allow, and the end user whom an app names with it.

The token, its scopes, its app and the end user are read in one query. An end user is an account like any other, so
whatever keeps two users apart keeps two end users apart.
"""

from hmac import compare_digest
from typing import Any, cast

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import FilteredRelation, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from knox.auth import TokenAuthentication as KnoxTokenAuthentication
from knox.crypto import hash_token
from knox.models import AuthToken
from knox.settings import CONSTANTS
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated, PermissionDenied
from rest_framework.permissions import SAFE_METHODS, IsAuthenticated
from rest_framework.request import Request

from chatmemory.database.compiled import Select
from chatmemory.errors import NotFound
from conversations.accounts.api_tokens import scopes_of
from conversations.accounts.apps import check_id, create_end_user, find_end_user
from conversations.models import App, EndUser, Scope


def _tokens(key: str, external_id: str) -> QuerySet[Any]:
    named = Q(user__app__end_users__external_id=external_id)
    rows: QuerySet[Any] = (
        AuthToken.objects.filter(token_key=key)
        .annotate(named=FilteredRelation("user__app__end_users", condition=named))
        .select_related("grant", "user__app", "user__end_user", "named__user")
    )
    return rows


_TOKENS = Select(_tokens)


class TokenAuthentication(KnoxTokenAuthentication):
    """knox's bearer tokens (hashed, revocable, expiring). The user is the end user, if the request names one."""

    _external_id = ""

    def authenticate(self, request: Request) -> Any:
        sent = request.headers.get(settings.END_USER_HEADER, "")
        if sent:
            self._external_id = sent.encode("latin-1").decode(errors="surrogateescape")  # Django's is Latin-1
            check_id(self._external_id)
        found = super().authenticate(request)  # type: ignore[no-untyped-call]  # as below
        if sent and found is None:  # a session would act for its own user
            raise NotAuthenticated
        return found

    def authenticate_credentials(self, token: bytes) -> Any:
        """Return the user and the token. The sweep deletes expired tokens, so that no request waits for that."""
        text = token.decode("ascii", "replace")
        digest = hash_token(text)
        for found in _TOKENS.all(text[: CONSTANTS.TOKEN_KEY_LENGTH], self._external_id):
            has_expired = found.expiry is not None and found.expiry < timezone.now()
            if not has_expired and compare_digest(digest, found.digest):
                self.validate_user(found)  # type: ignore[no-untyped-call]  # knox is typed in part
                if not self._external_id:
                    return found.user, found
                return acting_for(found, self._external_id, getattr(found, "named", None)), found
        raise AuthenticationFailed(_("Invalid token."))


def acts_for_users(token: Any) -> bool:
    """Whether a request's `auth` is a token that may name end users."""
    return Scope.ACT_FOR_USERS in scopes_of(token) and hasattr(token.user, "app")


def app_of(token: Any) -> App:
    """Return the app whose end users a request may name. Raises DRF's `PermissionDenied` if it may not."""
    if not acts_for_users(token):
        raise PermissionDenied("This token may not act for end users.")
    return cast(App, token.user.app)


def acting_for(token: Any, external_id: str, known: EndUser | None = None) -> User:
    """Return the account of the end user whom a request names, made at first use.

    Raises DRF's `PermissionDenied` if the token may not name any, or if the end user is disabled, and its
    `ValidationError` for a bad id.
    """
    app = app_of(token)
    found = known or find_end_user(app, external_id)
    if found is None:
        if Scope.READ_ONLY in scopes_of(token):
            raise NotFound("This app has no such end user.")
        found = create_end_user(app, external_id)
    if not found.user.is_active:
        raise PermissionDenied("This end user is disabled, or is being deleted.")
    return found.user


def end_user_named(token: Any, external_id: str) -> User:
    """Return the account of an end user whom a path names. Raises DRF's `PermissionDenied`, and `NotFound`."""
    if (found := find_end_user(app_of(token), external_id)) is None:
        raise NotFound("This app has no such end user.")
    return found.user


def require_own_account(request: Request) -> None:
    """Raise DRF's `PermissionDenied` if the request names an end user, who has neither tokens nor a password."""
    if isinstance(request.auth, AuthToken) and request.auth.user_id != request.user.pk:
        raise PermissionDenied("This is not done for an end user: leave out the header that names one.")


class ScopesAllow(IsAuthenticated):
    """Any caller who is authenticated, within the scopes of the token."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if not super().has_permission(request, view):
            return False
        if request.method not in SAFE_METHODS and Scope.READ_ONLY in scopes_of(request.auth):
            raise PermissionDenied("This token may only read.")
        return True
