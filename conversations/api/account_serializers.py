"""JSON of accounts and their tokens, in and out."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from chatmemory.api.fields import Text, not_blank
from conversations.api.serializers import PageOut, Strict


class TokenIn(Strict):
    username = Text(validators=[not_blank])
    password = Text(trim_whitespace=False)


class TokenOut(serializers.Serializer[Any]):
    token = serializers.CharField()
    expires_at = serializers.DateTimeField(allow_null=True)


class KnownTokenOut(serializers.Serializer[Any]):
    """A token without its text, which is shown only once, when the token is created."""

    id = serializers.CharField()
    prefix = serializers.CharField(help_text="The token's first characters.")
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    current = serializers.BooleanField(help_text="Whether this request was made with it.")


class TokensPageOut(PageOut):
    results = KnownTokenOut(many=True)


class MeOut(serializers.Serializer[Any]):
    username = serializers.CharField()
    is_staff = serializers.BooleanField()
    has_password = serializers.BooleanField()
    token = KnownTokenOut(allow_null=True, help_text="The one in use; null for a session.")


class EraseIn(Strict):
    """The confirmation of a deletion: which field is required depends on whether the account has a password."""

    password = Text(required=False, trim_whitespace=False, help_text="Yours, where you have one.")
    confirm = Text(required=False, help_text="Your user name, where you have no password.")
