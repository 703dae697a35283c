"""Search a caller's own messages, and trace where a fact is and was in a chat.

The text is in the body, because query strings end up in logs.
"""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import (
    BooleanField,
    CharField,
    ChoiceField,
    DateTimeField,
    IntegerField,
    ListField,
    Serializer,
    URLField,
    UUIDField,
    ValidationError,
)
from rest_framework.views import APIView

from chatmemory.api.fields import LongText, MaxChars, Strict, Whole
from chatmemory.api.http import caller, example, validated
from conversations.models import Role, get_chat
from conversations.replies.serializers import MessageOut
from memory.api.serializers import RecallOut
from memory.explain.trace import MAX_CHARS, WAYS, trace_fact
from memory.models import RevisionKind
from memory.recall.search import MAX_QUERY_CHARS, search

DEFAULT_LIMIT, MAX_LIMIT = 20, 50
"""The default and the highest number of results of one answer."""


class SearchIn(Strict):
    q = LongText(MaxChars(MAX_QUERY_CHARS), help_text="Words to look for.")
    limit = Whole(default=DEFAULT_LIMIT, min_value=1, max_value=MAX_LIMIT, help_text="Maximum number of results.")


class SnippetOut(Serializer[Any]):
    text = CharField(source="snippet", help_text="The passage as text.")
    matches = ListField(
        child=ListField(child=IntegerField(), min_length=2, max_length=2),
        help_text="Where in the text it matches: from the first code point to before the last, each.",
    )


class HitOut(Serializer[Any]):
    chat_id = UUIDField(source="message.chat_id", help_text="The chat's id.")
    message = MessageOut(help_text="The message.")
    snippet = SnippetOut(source="*", help_text="The passage that matches.")


class SearchOut(Serializer[Any]):
    results = HitOut(many=True, help_text="Items on this page.")
    next = URLField(allow_null=True, help_text="Always null: the response has the best matches only.")
    previous = URLField(allow_null=True, help_text="Address of the page before; null on the first.")


class SearchView(APIView):
    @extend_schema(
        request=SearchIn,
        responses=SearchOut,
        operation_id="search",
        examples=example({"q": "order AB-1234"}),
        tags=["messages"],
    )
    def post(self, request: Request) -> Response:
        """Search messages. In all your chats, best match first, with the matching passage. Matches whole words in any
        form, not parts of words.
        """
        fields = validated(SearchIn, request.data)
        hits = search(caller(request), fields["q"], fields["limit"])
        return Response(SearchOut({"results": hits, "next": None, "previous": None}).data)


# Tracing a fact


class TraceIn(Strict):
    text = LongText(
        MaxChars(MAX_CHARS),
        help_text="What to trace: words, a number, an id. A text has it if all these words are in one passage of it, "
        f"in any of their forms. At most {MAX_CHARS} characters.",
    )


class SayingOut(Serializer[Any]):
    id = UUIDField(source="message.pk", help_text="The message's id.")
    seq = IntegerField(source="message.seq", help_text="Its place in the chat, from 1.")
    role = ChoiceField(Role.choices, source="message.role", help_text="Who said it.")
    created_at = DateTimeField(source="message.created_at", help_text="When it was sent.")
    snippet = SnippetOut(source="*", help_text="The passage of the message that says it.")


class SaidOut(Serializer[Any]):
    messages = SayingOut(many=True, source="matches.hits", help_text="Up to 20 messages with it, newest first.")
    more = BooleanField(source="has_more_matches", help_text="Whether older messages may say it, too.")


class LossOut(Serializer[Any]):
    version = IntegerField(help_text="The version that lost it. Its diff shows how.")
    kind = ChoiceField(RevisionKind.choices, help_text="What made that version.")
    from_seq = IntegerField(help_text="The first message that was folded into that version.")
    through_seq = IntegerField(help_text="The last message; before `from_seq` if there was none.")
    created_at = DateTimeField(help_text="When that version was made.")


class HeldOut(Serializer[Any]):
    from_version = IntegerField(source="first.version", help_text="The first version that has it.")
    through_version = IntegerField(source="last.version", help_text="The last version in a row that has it.")
    lost = LossOut(allow_null=True, help_text="The next version, which lost it; null if there is none.")


class TracedSummaryOut(Serializer[Any]):
    in_use = BooleanField(help_text="Whether the memory in use has it.")
    held = HeldOut(many=True, help_text="The versions that have it, oldest first.")
    exact = BooleanField(source="is_exact", help_text="Whether every version was read.")
    more = BooleanField(source="is_cut", help_text="Whether older versions were not searched.")


class TracedNowOut(Serializer[Any]):
    how = ListField(
        source="now",
        child=ChoiceField(list(WAYS)),
        help_text="How the next prompt would have it if the text itself were the question. Empty: not at all.",
    )
    recall = RecallOut(allow_null=True, help_text="Whether earlier messages would be searched, and why.")


class TraceOut(Serializer[Any]):
    text = CharField(help_text="What was traced.")
    said = SaidOut(source="*", help_text="Where it was said.")
    summary = TracedSummaryOut(source="*", help_text="Versions of the summary that have it or lost it.")
    now = TracedNowOut(source="*", help_text="Whether it would be in a prompt now.")


class TraceView(APIView):
    @extend_schema(
        request=TraceIn,
        responses=TraceOut,
        operation_id="trace",
        examples=example({"text": "AB-1234"}),
        tags=["memory"],
    )
    def post(self, request: Request, chat_id: UUID) -> Response:
        """Trace a fact. Where a text was said in the chat, which versions of the summary had it and which lost it, and
        whether it would be in a prompt now. No model is asked.
        """
        chat = get_chat(caller(request), chat_id)
        found = trace_fact(chat, validated(TraceIn, request.data)["text"])
        if found is None:
            raise ValidationError({"text": ["This contains only very common words, which are not searched."]})
        return Response(TraceOut(found).data)
