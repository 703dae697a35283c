"""The caller's own account: making, listing and revoking tokens; account data and deletion. The export is in
`memory.api`."""

from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from knox.models import AuthToken
from rest_framework.exceptions import PermissionDenied, ValidationError
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import (
    BooleanField,
    CharField,
    ChoiceField,
    DateTimeField,
    ListField,
    Serializer,
)
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from chatmemory.api.fields import Strict, Text, not_blank
from chatmemory.api.http import PAGING, CursorPages, caller, example, page_of, validated
from chatmemory.errors import InvalidCredentials, InvalidRequest, NotFound
from conversations import account_deletion
from conversations.accounts import api_tokens, sign_in_limits
from conversations.accounts.authentication import end_user_named, require_own_account
from conversations.accounts.models import Scope
from conversations.api import receipts
from conversations.sign_in.password import needs_more

account_operation = partial(extend_schema, tags=["account"])


class TokenIn(Strict):
    username = Text(validators=[not_blank], help_text="The user name.")
    password = Text(trim_whitespace=False, help_text="The password.")


class TokenOut(Serializer[Any]):
    token = CharField(help_text="The token. It is shown only once.")
    expires_at = DateTimeField(allow_null=True, help_text="When it expires; null if it does not.")


class KnownTokenOut(Serializer[Any]):
    """A token without its text, which is shown only once, when the token is created."""

    id = CharField(help_text="Its id.")
    name = CharField(help_text="Its name, given when it was created; may be empty.")
    scopes = ListField(child=ChoiceField(Scope.choices), help_text="The permissions of its bearer.")
    prefix = CharField(help_text="The token's first characters.")
    created_at = DateTimeField(help_text="Creation time.")
    expires_at = DateTimeField(allow_null=True, help_text="When it expires; null if it does not.")
    current = BooleanField(help_text="Whether this request was made with it.")


class MeOut(Serializer[Any]):
    username = CharField(help_text="The user name.")
    is_staff = BooleanField(help_text="Whether the account may use the admin.")
    has_password = BooleanField(help_text="Whether the account can sign in with a password.")
    token = KnownTokenOut(allow_null=True, help_text="The token in use; null for a session.")


class EraseIn(Strict):
    """The confirmation of a deletion: an account with a password needs `password`, any other `confirm`."""

    password = Text(required=False, trim_whitespace=False, help_text="Your password, if you have one.")
    confirm = Text(required=False, help_text="Your user name, if you have no password.")


END_USER = OpenApiParameter(
    "end_user",
    str,
    OpenApiParameter.PATH,
    description="What the app calls the end user, in the path's encoding.",
)
FRESH_TOKEN_MINUTES = 10
"""Maximum age of a token that is accepted in place of a password."""


class TokenView(APIView):
    """Create a token with a password, or revoke the token of the request."""

    @account_operation(
        request=TokenIn,
        responses={201: TokenOut},
        auth=[],
        examples=example({"username": "demo", "password": "correct horse battery staple"}),
    )
    def post(self, request: Request) -> Response:
        """Create a token (sign in). The token is shown only once. It is valid until `expires_at`, or until it is
        revoked.
        """
        fields = validated(TokenIn, request.data)
        if not settings.LOCAL_PASSWORDS:
            raise PermissionDenied("Passwords are switched off on this server. Sign in at /accounts/login/.")
        with sign_in_limits.attempt(fields["username"], _address(request)):
            token, text = _issued(request, **fields)
        return Response(TokenOut({"token": text, "expires_at": token.expiry}).data, status=201)

    @account_operation(request=None, responses={204: None})
    def delete(self, request: Request) -> Response:
        """Revoke the current token (sign out). Revokes the token of this request. Others stay valid."""
        require_own_account(request)
        if not isinstance(request.auth, AuthToken):
            raise InvalidRequest("This request was not made with a token.")
        request.auth.delete()
        return Response(status=204)

    def get_permissions(self) -> Any:
        # An unsupported method is answered with 405, not with a request to sign in.
        return super().get_permissions() if self.request.method in ("DELETE", "OPTIONS") else [AllowAny()]

    def get_authenticators(self) -> Any:
        # A stale token in the request must not keep its owner from getting a new one.
        return [] if self.request is not None and self.request.method == "POST" else super().get_authenticators()


def _issued(request: Request, username: str, password: str) -> tuple[AuthToken, str]:
    """Create a token for a user name and its password. Raises `InvalidCredentials`."""
    for _ in range(2):  # the password may be rehashed or changed while it is checked
        user = authenticate(request._request, username=username, password=password)
        if not isinstance(user, User):
            break
        if needs_more(user):
            raise PermissionDenied("A password alone does not let you in. Sign in at /accounts/login/.")
        if issued := api_tokens.issue(user, timedelta(days=api_tokens.LIFETIME_DAYS)):
            return issued
    raise InvalidCredentials("Wrong user name or password.")


def _address(request: Request) -> str:
    return str(request.META.get("REMOTE_ADDR", ""))


class TokenViews(ViewSet):
    @account_operation(parameters=PAGING, responses=page_of("TokensPageOut", KnownTokenOut), operation_id="tokens_list")
    def page(self, request: Request) -> Response:
        """List your valid tokens. Shows the first characters of each; the tokens themselves are not stored."""
        pages = CursorPages("-created")
        tokens = pages.rows_of_page(api_tokens.valid_tokens(caller(request).pk), request)
        shown = [_token_json(token, request) for token in tokens]
        return pages.get_paginated_response(KnownTokenOut(shown, many=True).data)

    @account_operation(request=None, responses={204: None}, operation_id="tokens_delete_all")
    def remove_all(self, request: Request) -> Response:
        """Revoke all tokens. Including the one used for this request. Requests with any of them get 401."""
        require_own_account(request)
        api_tokens.revoke(caller(request).pk)
        return Response(status=204)

    @account_operation(
        parameters=[
            OpenApiParameter(
                "token_id",
                {"type": "string", "pattern": f"^{api_tokens.ID_PATTERN}$"},
                OpenApiParameter.PATH,
                description="From the list of your tokens.",
            )
        ],
        request=None,
        responses={204: None},
        operation_id="tokens_delete",
    )
    def remove(self, request: Request, token_id: str) -> Response:
        """Revoke a token. Requests with this token get 401."""
        if not api_tokens.revoke(caller(request).pk, [token_id]):
            raise NotFound("Token not found.")
        return Response(status=204)


def _token_json(token: AuthToken, request: Request) -> dict[str, Any]:
    return {
        "id": api_tokens.id_of(token),
        "name": token.grant.name if hasattr(token, "grant") else "",
        "scopes": api_tokens.scopes_of(token),
        "prefix": api_tokens.prefix_of(token),
        "created_at": token.created,
        "expires_at": token.expiry,
        "current": isinstance(request.auth, AuthToken) and request.auth.pk == token.pk,
    }


class MeViews(ViewSet):
    @account_operation(responses=MeOut, operation_id="me_read")
    def read(self, request: Request) -> Response:
        """Get your account. The account that the token or session belongs to."""
        user, token = caller(request), request.auth
        me = {
            "username": user.get_username(),
            "is_staff": user.is_staff,
            "has_password": _has_password(user),
            "token": _token_json(token, request) if isinstance(token, AuthToken) else None,
        }
        return Response(MeOut(me).data)

    @account_operation(
        request=EraseIn,
        parameters=receipts.PREFER,
        responses=receipts.DELETED,
        operation_id="me_delete",
        examples=example({"password": "correct horse battery staple"}),
        summary="Delete your account and all its data",
        description="Asks for your password again. An account without one gives its user name as `confirm`, with a "
        f"token that is not older than {FRESH_TOKEN_MINUTES} minutes. Superusers are not erased this way. Tokens and "
        "sessions end at once. Large accounts take longer; the deletion continues in the background.",
    )
    def remove(self, request: Request) -> Response:
        require_own_account(request)
        fields = validated(EraseIn, request.data)
        user = caller(request)
        if user.is_superuser:
            raise PermissionDenied("A superuser cannot be deleted this way. Use `manage.py forget_user`.")
        if _has_password(user):
            _require_password(request, user, fields.get("password"))
        else:
            _require_confirmation(request, user, fields.get("confirm"))
        return receipts.delete(request, user, lambda: account_deletion.erase_at_once(user.pk))

    @account_operation(responses=receipts.DeletionOut, operation_id="me_deletion")
    def count(self, request: Request) -> Response:
        """Count what the deletion of your account would take with it. Nothing is deleted."""
        return Response(receipts.deletion_counts(caller(request)))


class EndUserViews(ViewSet):
    @account_operation(
        parameters=[END_USER, *receipts.PREFER], request=None, responses=receipts.DELETED, operation_id="users_delete"
    )
    def remove(self, request: Request, end_user: str) -> Response:
        """Delete an end user of your app and all their data. For tokens with the scope `act-for-users`. Much data takes
        longer; the deletion continues in the background, and until it is done, nothing can be done for this end user.
        Then the id may be used anew.
        """
        user = end_user_named(request, end_user)
        return receipts.delete(request, user, lambda: account_deletion.erase_at_once(user.pk))

    @account_operation(parameters=[END_USER], responses=receipts.DeletionOut, operation_id="users_deletion")
    def count(self, request: Request, end_user: str) -> Response:
        """Count what the deletion of an end user of your app would take with it. Nothing is deleted."""
        return Response(receipts.deletion_counts(end_user_named(request, end_user)))


def _has_password(user: User) -> bool:
    return settings.LOCAL_PASSWORDS and bool(user.password) and user.has_usable_password()


def _require_password(request: Request, user: User, password: str | None) -> None:
    """Raise unless this is the user's password. Wrong passwords count as failed sign-ins."""
    if password is None:
        raise ValidationError({"password": ["Your password is required to delete your account."]})
    with sign_in_limits.attempt(user.get_username(), _address(request)):
        if not user.check_password(password):
            raise PermissionDenied("Wrong password.")


def _require_confirmation(request: Request, user: User, name: str | None) -> None:
    """Raise unless the user's name was given with a recent token: an old token may have been stolen."""
    if name != user.get_username():
        raise ValidationError({"confirm": ["Your user name is required to delete your account."]})
    oldest = timezone.now() - timedelta(minutes=FRESH_TOKEN_MINUTES)
    if not (isinstance(request.auth, AuthToken) and request.auth.created >= oldest):
        raise PermissionDenied(
            f"Your account has no password: this needs a token made in the last {FRESH_TOKEN_MINUTES} minutes. "
            "Ask the operator of this server."
        )
