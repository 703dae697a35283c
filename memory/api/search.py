"""`/v1/search`: search of a caller's own messages, best match first.

A query can be POSTed, because query strings end up in logs.
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chatmemory.api.http import Text, Whole, caller, example, no_longer_than, not_blank
from conversations.api.serializers import MessageOut, Strict
from conversations.replies.events import message_json
from memory.recall.search import Hit, search

MOST_CHARS = 2000
"""The longest query, in characters: more would not find more."""
DEFAULT_LIMIT, MAX_LIMIT = 20, 50
"""The default and the highest number of results of one answer."""


class SearchIn(Strict):
    q = Text(
        validators=[not_blank, no_longer_than(lambda: MOST_CHARS)],
        trim_whitespace=False,
        help_text="Words to look for.",
    )
    limit = Whole(
        required=False,
        default=DEFAULT_LIMIT,
        min_value=1,
        max_value=MAX_LIMIT,
        help_text="Maximum number of results.",
    )


class SnippetOut(serializers.Serializer[Any]):
    text = serializers.CharField(source="snippet", help_text="The passage as text.")
    matches = serializers.ListField(
        child=serializers.ListField(child=serializers.IntegerField(), min_length=2, max_length=2),
        help_text="Where in the text it matches: from the first code point to before the last, each.",
    )


class HitOut(serializers.Serializer[Any]):
    chat_id = serializers.UUIDField(help_text="The chat's id.")
    message = MessageOut(help_text="The message.")
    snippet = SnippetOut(help_text="The passage that matches.")


class SearchOut(serializers.Serializer[Any]):
    results = HitOut(many=True, help_text="Items on this page.")
    next = serializers.URLField(
        allow_null=True,
        help_text="Always null: what is not among the best, or has no room in the answer, is not listed.",
    )
    previous = serializers.URLField(
        allow_null=True, help_text="Address of the page before; null on the first."
    )


class SearchView(APIView):
    @extend_schema(
        request=SearchIn,
        responses=SearchOut,
        operation_id="search",
        examples=example({"q": "order AB-1234"}),
        summary="Search messages",
        description="In all your chats, best match first, with the matching passage. Matches whole words "
        "in any form, not parts of words.",
        tags=["messages"],
    )
    def post(self, request: Request) -> Response:
        body = SearchIn(data=request.data)
        body.is_valid(raise_exception=True)
        hits = search(caller(request), body.validated_data["q"], body.validated_data["limit"])
        return Response({"results": [_hit_json(hit) for hit in hits], "next": None, "previous": None})


def _hit_json(hit: Hit) -> dict[str, Any]:
    return {
        "chat_id": str(hit.message.chat_id),
        "message": message_json(hit.message),
        "snippet": SnippetOut(hit).data,
    }
