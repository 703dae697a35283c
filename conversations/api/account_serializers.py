"""JSON of accounts and their tokens, in and out."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from chatmemory.api.fields import Text, not_blank
from conversations.api.serializers import PageOut, Strict


class TokenIn(Strict):
    username = Text(validators=[not_blank], help_text="The user name.")
    password = Text(trim_whitespace=False, help_text="The password.")


class TokenOut(serializers.Serializer[Any]):
    token = serializers.CharField(help_text="The token. It is shown only once.")
    expires_at = serializers.DateTimeField(allow_null=True, help_text="When it expires; null if it does not.")


class KnownTokenOut(serializers.Serializer[Any]):
    """A token without its text, which is shown only once, when the token is created."""

    id = serializers.CharField(help_text="Its id.")
    prefix = serializers.CharField(help_text="The token's first characters.")
    created_at = serializers.DateTimeField(help_text="Creation time.")
    expires_at = serializers.DateTimeField(allow_null=True, help_text="When it expires; null if it does not.")
    current = serializers.BooleanField(help_text="Whether this request was made with it.")


class TokensPageOut(PageOut):
    results = KnownTokenOut(many=True, help_text="Items on this page.")


class MeOut(serializers.Serializer[Any]):
    username = serializers.CharField(help_text="The user name.")
    is_staff = serializers.BooleanField(help_text="Whether the account may use the admin.")
    has_password = serializers.BooleanField(help_text="Whether the account can sign in with a password.")
    token = KnownTokenOut(allow_null=True, help_text="The one in use; null for a session.")


class EraseIn(Strict):
    """The confirmation of a deletion: which field is required depends on whether the account has a password."""

    password = Text(required=False, trim_whitespace=False, help_text="Yours, where you have one.")
    confirm = Text(required=False, help_text="Your user name, where you have no password.")
