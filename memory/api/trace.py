"""`/v1/chats/{id}/trace`: where a fact is and was. A text can be POSTed, because query strings end up in logs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chatmemory.api.fields import Text, no_longer_than, not_blank
from chatmemory.api.http import caller
from conversations.api.serializers import Strict
from conversations.lookup import get_chat
from conversations.models import Role
from conversations.replies.message_json import iso
from memory import services
from memory.api.search import SnippetOut
from memory.api.serializers import RecallOut, recall_json
from memory.explain.fact import WAYS, HeldSpan
from memory.explain.trace import Trace
from memory.models import RevisionKind, SummaryRevision

MOST_CHARS = 500
"""The longest text to trace, in characters: a fact is short."""
TEXT_HELP = (
    "What to trace: words, a number, an id. A text has it if all these words are in one passage of it, "
    f"in any of their forms. At most {MOST_CHARS} characters."
)
NOTHING_TO_TRACE = "This contains only very common words, which are not searched."


class TraceIn(Strict):
    text = Text(
        validators=[not_blank, no_longer_than(lambda: MOST_CHARS)], trim_whitespace=False, help_text=TEXT_HELP
    )


class TraceQuery(serializers.Serializer[Any]):
    text = serializers.CharField(
        validators=[not_blank, no_longer_than(lambda: MOST_CHARS)], trim_whitespace=False, help_text=TEXT_HELP
    )


class SayingOut(serializers.Serializer[Any]):
    id = serializers.UUIDField(help_text="The message's id.")
    seq = serializers.IntegerField(help_text="Its place in the chat, from 1.")
    role = serializers.ChoiceField(Role.choices, help_text="Who said it.")
    created_at = serializers.DateTimeField(help_text="When it was sent.")
    snippet = SnippetOut(help_text="The passage of the message that says it.")


class SaidOut(serializers.Serializer[Any]):
    messages = SayingOut(many=True, help_text="Messages that say it, newest first, at most 20.")
    more = serializers.BooleanField(help_text="Whether there may be older messages that say it.")


class LossOut(serializers.Serializer[Any]):
    version = serializers.IntegerField(help_text="The version that lost it. Its diff shows how.")
    kind = serializers.ChoiceField(RevisionKind.choices, help_text="What made that version.")
    from_seq = serializers.IntegerField(help_text="The first message that was folded into that version.")
    through_seq = serializers.IntegerField(help_text="The last one; before `from_seq` if none was.")
    created_at = serializers.DateTimeField(help_text="When that version was made.")


class HeldOut(serializers.Serializer[Any]):
    from_version = serializers.IntegerField(help_text="The first version that has it.")
    through_version = serializers.IntegerField(help_text="The last of those that follow and have it.")
    lost = LossOut(
        allow_null=True, help_text="The next version, which lost it; null if there is none after these."
    )


class TracedSummaryOut(serializers.Serializer[Any]):
    in_use = serializers.BooleanField(help_text="Whether the memory in use has it.")
    held = HeldOut(many=True, help_text="The versions that have it, oldest first.")
    exact = serializers.BooleanField(
        help_text="Whether every version was read. If not, those between two that have it count as having it."
    )
    more = serializers.BooleanField(help_text="Whether there are older versions that were not looked at.")


class TracedNowOut(serializers.Serializer[Any]):
    how = serializers.ListField(
        child=serializers.ChoiceField(list(WAYS)),
        help_text="How the next prompt would have it if the text itself were asked. Empty: it would not.",
    )
    recall = RecallOut(
        allow_null=True, help_text="Whether earlier messages would be searched for it, and why."
    )


class TraceOut(serializers.Serializer[Any]):
    text = serializers.CharField(help_text="What was traced.")
    said = SaidOut(help_text="Where it was said.")
    summary = TracedSummaryOut(help_text="Which versions of the summary have it, and where it was lost.")
    now = TracedNowOut(help_text="Whether it would be in a prompt now.")


EXAMPLE = OpenApiExample(
    "A number that the third version of the summary lost",
    response_only=True,
    value={
        "text": "MFRB94",
        "said": {
            "messages": [
                {
                    "id": "019ab1c2-7d40-7000-8000-000000000113",
                    "seq": 13,
                    "role": "user",
                    "created_at": "2026-05-04T09:13:00Z",
                    "snippet": {"text": "My reservation is MFRB94.", "matches": [[18, 24]]},
                }
            ],
            "more": False,
        },
        "summary": {
            "in_use": False,
            "held": [
                {
                    "from_version": 1,
                    "through_version": 2,
                    "lost": {
                        "version": 3,
                        "kind": "fold",
                        "from_seq": 41,
                        "through_seq": 60,
                        "created_at": "2026-05-04T10:02:00Z",
                    },
                }
            ],
            "exact": True,
            "more": False,
        },
        "now": {
            "how": ["recalled"],
            "recall": {
                "sought": "some",
                "reason": "new_words",
                "why": "It has words that appear only in earlier messages.",
            },
        },
    },
)


class TraceView(APIView):
    @extend_schema(
        parameters=[TraceQuery],
        responses=TraceOut,
        operation_id="trace_read",
        summary="Trace a fact",
        description=(
            "Where a text was said in the chat, which versions of the summary had it and which lost it, and whether it "
            "would be in a prompt now. No model is asked."
        ),
        examples=[EXAMPLE],
        tags=["memory"],
    )
    def get(self, request: Request, chat_id: UUID) -> Response:
        return self._answer(request, chat_id, TraceQuery(data=request.query_params.dict()))

    @extend_schema(
        request=TraceIn,
        responses=TraceOut,
        operation_id="trace_privately",
        summary="Trace a fact (text in the body)",
        description="The same as the GET. Use it where query strings may be logged.",
        examples=[OpenApiExample("An id", request_only=True, value={"text": "MFRB94"}), EXAMPLE],
        tags=["memory"],
    )
    def post(self, request: Request, chat_id: UUID) -> Response:
        return self._answer(request, chat_id, TraceIn(data=request.data))

    def _answer(self, request: Request, chat_id: UUID, body: serializers.Serializer[Any]) -> Response:
        chat = get_chat(caller(request), chat_id)
        body.is_valid(raise_exception=True)
        text = body.validated_data["text"]
        found = services.trace_fact(chat, text)
        if found is None:
            raise serializers.ValidationError({"text": [NOTHING_TO_TRACE]})
        return Response(trace_json(text, found))


def trace_json(text: str, found: Trace) -> dict[str, Any]:
    """A trace as the API shows it."""
    versions = found.versions
    return {
        "text": text,
        "said": {
            "messages": [
                {
                    "id": str(hit.message.pk),
                    "seq": hit.message.seq,
                    "role": hit.message.role,
                    "created_at": iso(hit.message.created_at),
                    "snippet": {"text": hit.snippet, "matches": [list(one) for one in hit.matches]},
                }
                for hit in found.said.hits
            ],
            "more": found.said.is_cut or len(found.said.seqs) > len(found.said.hits),
        },
        "summary": {
            "in_use": versions.in_use,
            "held": [_held_json(span, versions.losses) for span in versions.held],
            "exact": versions.is_exact,
            "more": versions.is_cut,
        },
        "now": {"how": found.now, "recall": recall_json(found.recall)},
    }


def _held_json(span: HeldSpan, losses: dict[int, SummaryRevision]) -> dict[str, Any]:
    lost = losses.get(span.lost_in or 0)
    return {
        "from_version": span.from_version,
        "through_version": span.through_version,
        "lost": None
        if lost is None
        else {
            "version": lost.version,
            "kind": lost.kind,
            "from_seq": lost.from_seq,
            "through_seq": lost.through_seq,
            "created_at": iso(lost.created_at),
        },
    }
