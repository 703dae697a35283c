"""Who makes a request: a bearer token, what its scopes allow, and the end user whom an app names with it.

The token, its scopes, its app and the end user are read in one query. An end user is an account like any other, so
two end users are kept apart as two users are. Only a POST makes the account of an end user; for
other requests, a new end user has an empty account.
"""

from hmac import compare_digest
from typing import Any, TypeGuard

from allauth.idp.oidc.models import Token as AgentToken
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import FilteredRelation, Q, QuerySet
from django.http import HttpRequest
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
from chatmemory.errors import InvalidRequest, NotFound
from conversations.accounts.api_tokens import scopes_of
from conversations.accounts.end_users import checked_id, create_end_user, find_end_user
from conversations.accounts.models import App, EndUser, Scope, TokenGrant


def _tokens(key: str, external_id: str) -> QuerySet[Any]:
    named = Q(user__app__end_users__external_id=external_id)
    rows: QuerySet[Any] = (
        AuthToken.objects.filter(token_key=key)
        .annotate(named=FilteredRelation("user__app__end_users", condition=named))
        .select_related("grant", "user__app", "user__end_user", "named__user")
    )
    return rows


_TOKENS = Select(_tokens)
ABOUT_CHATS = ("/v1/chats", "/v1/message", "/v1/search", "/v1/responses/")
"""The beginnings of paths about chats. `openai_api.conversation_view` looks into its body first."""
NO_END_USER = "This app has no such end user."


class TokenAuthentication(KnoxTokenAuthentication):
    """knox's bearer tokens (hashed, revocable, expiring). The user is the end user, if the request names one."""

    _external_id = ""
    _creates = False

    def authenticate(self, request: Request) -> Any:
        self._external_id, self._creates = _named_by_header(request._request), request.method == "POST"
        found = super().authenticate(request)  # type: ignore[no-untyped-call]  # as below
        if self._external_id and found is None:  # a session would act for its own user
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
                known = getattr(found, "named", None)
                return acting_for(found, self._external_id, known, creates=self._creates), found
        raise AuthenticationFailed(_("Invalid token."))


class AgentAuthentication(TokenAuthentication):
    """For `/mcp` alone: our tokens, and with `MCP_OAUTH` those that people gave agents, which are for nothing else."""

    def authenticate(self, request: Request) -> Any:
        self._here = request.build_absolute_uri(request.path).rstrip("/")
        return super().authenticate(request)

    def authenticate_credentials(self, token: bytes) -> Any:
        try:
            return super().authenticate_credentials(token)
        except AuthenticationFailed:
            rows = AgentToken.objects.select_related("user").filter(user__is_active=True)
            found = rows.lookup(AgentToken.Type.ACCESS_TOKEN, token.decode("ascii", "replace"))
            is_here = found and [one.rstrip("/") for one in found.get_resources()] == [self._here]
            if found is None or not is_here or not settings.MCP_OAUTH:
                raise
        if self._external_id:
            app_of(found)  # which refuses
        scope = Scope.CHAT if found.get_scopes() == [Scope.CHAT] else Scope.READ_ONLY
        found.grant = TokenGrant(scopes=[scope])  # type: ignore[attr-defined]  # where `scopes_of` looks
        return found.user, found


def _named_by_header(request: HttpRequest) -> str:
    """Return the id of the end user whom headers name, or "". Raises `InvalidRequest` if they name two."""
    names = settings.END_USER_HEADER
    sent = [request.headers[name].encode("latin-1") for name in names if name in request.headers]
    if scope := getattr(request, "scope", None):  # of ASGI, which keeps repeated headers apart
        sent = [value for name, value in scope["headers"] if name.decode("latin-1") in names]
    named = {checked_id(value.decode(errors="surrogateescape")) for value in sent}
    if len(named) > 1:
        raise InvalidRequest("The headers of this request name more than one end user.")
    return named.pop() if named else ""


def acts_for_users(auth: object) -> TypeGuard[AuthToken]:
    """Whether a request's `auth` is a token that may name end users."""
    return isinstance(auth, AuthToken) and Scope.ACT_FOR_USERS in scopes_of(auth) and hasattr(auth.user, "app")


def remembers_named(auth: object) -> bool:
    """Whether a request's `auth` is a token whose named conversations are remembered even with `store: false`."""
    return Scope.REMEMBER_NAMED in scopes_of(auth)


def app_of(auth: object) -> App:
    """Return the app whose end users a request may name. Raises DRF's `PermissionDenied` if it may not."""
    if not acts_for_users(auth):
        raise PermissionDenied("This token may not act for end users.")
    return auth.user.app


def acting_for(token: AuthToken, external_id: str, known: EndUser | None = None, *, creates: bool = True) -> User:
    """Return the account of the end user whom a request names, made at first use if the request `creates` it.

    Otherwise it stands for an empty account: its key is 0, which no row has. Raises DRF's `PermissionDenied` if the
    token may not name any, or if the end user is disabled, and its `ValidationError` for a bad id.
    """
    app = app_of(token)
    found = known or find_end_user(app, external_id)
    if found is None:
        if not creates or Scope.READ_ONLY in scopes_of(token):
            return User(pk=0, username=f"{app}/{external_id}")
        found = create_end_user(app, external_id)
    if not found.user.is_active:
        raise PermissionDenied("This end user is disabled, or is being deleted.")
    return found.user


def end_user_named(request: Request, external_id: str) -> User:
    """Return the end user's account that an app's own request names. Raises `NotFound` and `PermissionDenied`."""
    require_own_account(request)
    if (found := find_end_user(app_of(request.auth), external_id)) is None:
        raise NotFound(NO_END_USER)
    return found.user


def require_own_account(request: Request) -> None:
    """Raise DRF's `PermissionDenied` if the request names an end user, who has neither tokens nor a password."""
    if isinstance(request.auth, AuthToken) and request.auth.user_id != request.user.pk:
        raise PermissionDenied("This is not done for an end user: leave out the header that names one.")


def require_end_user(request: Request) -> None:
    """Raise `InvalidRequest` if an app makes this request for itself and has to name an end user."""
    token = request.auth
    is_for_itself = isinstance(token, AuthToken) and token.user_id == request.user.pk
    if is_for_itself and hasattr(token.user, "app") and token.user.app.requires_end_user:
        raise InvalidRequest("This app must name an end user: send the header `X-Chatmemory-User`.")


class ScopesAllow(IsAuthenticated):
    """Any authenticated caller, within the token's scopes. For chats, an app may have to name an end user."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if not super().has_permission(request, view):
            return False
        if request.method not in SAFE_METHODS and Scope.READ_ONLY in scopes_of(request.auth):
            raise PermissionDenied("This token may only read.")
        is_list = request.path_info == ABOUT_CHATS[0] and request.method != "POST"
        if request.path_info.startswith(ABOUT_CHATS) and not (is_list and "user" in request.query_params):
            require_end_user(request)
        return True
