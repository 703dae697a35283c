"""The views of memory: reading, updating, pausing, restoring and estimating it, and folding what is not stored."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chatmemory.api.http import PAGING, CursorPages, caller, example
from chatmemory.database import executors
from chatmemory.errors import NotFound
from chatmemory.text.tokens import count_tokens
from conversations.api.limited_view import LimitedView
from conversations.api.serializers import spoken
from conversations.models import Chat, get_chat, get_message
from conversations.replies.generation import (
    begin_call,
    cancel_on_drain,
    count_prompt,
    end_call,
    refuse_when_draining,
)
from memory.api.serializers import (
    BriefOut,
    ContextIn,
    ContextOut,
    DifferenceOut,
    DifferenceQuery,
    EstimateOut,
    EstimateQuery,
    RestoreIn,
    ResummarizeIn,
    RevisionOut,
    RevisionsPageOut,
    SummarizeIn,
    SummarizeOut,
    TaskOut,
    UsageDaysOut,
    UsageQuery,
    brief_json,
    context_json,
    summarized_json,
)
from memory.briefs import brief_of, history_tokens
from memory.context.build import preview
from memory.context.record import card_of, past_context
from memory.context.render import Source
from memory.explain.verify import why_not_exact
from memory.folding.estimate import estimate_for
from memory.folding.request import demand_resummarize
from memory.folding.stateless import SummaryRequest, TimeLeft, summarize
from memory.models import ConversationBrief, SummaryRevision
from memory.revisions import diff
from memory.revisions.by_hand import clear, pause_updates, restore, resume_updates
from memory.usage import daily


def _revision(chat: Chat, version: int) -> SummaryRevision:
    revision = SummaryRevision.objects.filter(chat=chat, version=version).first()
    if revision is None:
        raise NotFound("This chat's memory has no such version.")
    return revision


class BriefView(APIView):
    @extend_schema(
        responses=BriefOut,
        operation_id="brief_read",
        summary="Get the current memory",
        description="The summary in use, how far it reaches, and what is not summarized yet.",
        tags=["memory"],
    )
    def get(self, request: Request, chat_id: UUID) -> Response:
        chat = get_chat(caller(request), chat_id)
        return Response(brief_json(brief_of(chat)))


class PauseView(APIView):
    @extend_schema(
        request=None,
        responses=BriefOut,
        operation_id="brief_pause",
        summary="Pause summary updates",
        description="The summary stays as it is, and an update under way is dropped. Newer messages stay in the "
        "prompt, in full or as one-line summaries; those that have no room can still be recalled. Updates resume by "
        "themselves when what was said since the pause no longer fits.",
        tags=["memory"],
    )
    def post(self, request: Request, chat_id: UUID) -> Response:
        user = caller(request)
        return Response(brief_json(pause_updates(get_chat(user, chat_id), user)))


class ResumeView(APIView):
    @extend_schema(
        request=None,
        responses=BriefOut,
        operation_id="brief_resume",
        summary="Resume summary updates",
        description="What waited is summarized in the background if it is due. So is it by an update or a rebuild, "
        "which resume, too.",
        tags=["memory"],
    )
    def post(self, request: Request, chat_id: UUID) -> Response:
        user = caller(request)
        return Response(brief_json(resume_updates(get_chat(user, chat_id), user, on_demand=True)))


class ClearView(APIView):
    @extend_schema(
        request=None,
        responses=BriefOut,
        operation_id="brief_clear",
        summary="Clear the summary",
        description="The summary starts over with the messages that are not summarized yet. No message is removed: "
        "older ones can still be recalled. To undo it, restore the previous version; a rebuild summarizes "
        "everything again.",
        tags=["memory"],
    )
    def post(self, request: Request, chat_id: UUID) -> Response:
        user = caller(request)
        return Response(brief_json(clear(get_chat(user, chat_id), user, on_demand=True)))


class EstimateView(APIView):
    @extend_schema(
        parameters=[EstimateQuery],
        responses=EstimateOut,
        operation_id="estimate_read",
        summary="Estimate an update or a rebuild",
        description="What it would take to update or rebuild the memory, to switch to another policy, or to go on from "
        "an older version. Nothing is done, and no model is asked.",
        tags=["memory"],
    )
    def get(self, request: Request, chat_id: UUID) -> Response:
        chat = get_chat(caller(request), chat_id)
        query = EstimateQuery(data=request.query_params.dict())
        query.is_valid(raise_exception=True)
        asked = query.validated_data
        if version := asked.get("restore"):
            after = _revision(chat, version).through_seq
            return Response(EstimateOut(estimate_for(chat, "update", after_seq=after)).data)
        if policy := asked.get("policy"):
            chat.policy = policy  # only for the estimate: it is not saved
        return Response(EstimateOut(estimate_for(chat, "rebuild" if policy else asked["mode"])).data)


class RevisionPages(CursorPages):
    page_size = 20
    ordering = "-version"


class RevisionsView(APIView):
    @extend_schema(
        parameters=PAGING,
        responses=RevisionsPageOut,
        operation_id="revisions_list",
        summary="List versions of the summary",
        description="All versions that the summary had, newest first, with what each kept and cost.",
        tags=["memory"],
    )
    def get(self, request: Request, chat_id: UUID) -> Response:
        chat = get_chat(caller(request), chat_id)
        pages = RevisionPages()
        page = pages.paginate_queryset(SummaryRevision.objects.filter(chat=chat), request, view=self)
        return pages.get_paginated_response(RevisionOut(page, many=True).data)


class RevisionView(APIView):
    @extend_schema(
        responses=RevisionOut,
        operation_id="revisions_read",
        summary="Get a version",
        description="Its text, what it was made from, by which model, and what it kept and lost.",
        tags=["memory"],
    )
    def get(self, request: Request, chat_id: UUID, version: int) -> Response:
        return Response(RevisionOut(_revision(get_chat(caller(request), chat_id), version)).data)


class DifferenceView(APIView):
    @extend_schema(
        parameters=[DifferenceQuery],
        responses=DifferenceOut,
        operation_id="revisions_diff",
        summary="Compare two versions",
        description="Word by word, against the parent version or any other. `lost` and `gained` list the "
        "numbers, ids and names that were removed or added.",
        tags=["memory"],
    )
    def get(self, request: Request, chat_id: UUID, version: int) -> Response:
        revision = _revision(get_chat(caller(request), chat_id), version)
        query = DifferenceQuery(data=request.query_params.dict())
        query.is_valid(raise_exception=True)
        against = query.validated_data.get("against")
        older = diff.parent_of(revision) if against is None else _revision(revision.chat, against)
        return Response(DifferenceOut(diff.difference(revision, older)).data)


class RestoreView(APIView):
    @extend_schema(
        request=RestoreIn,
        responses=BriefOut,
        operation_id="revisions_restore",
        examples=example({"pause": True}),
        summary="Restore a version",
        description="Its text becomes the current memory, as a new version. Newer messages are summarized"
        " again, or, with `pause`, wait until updates are resumed.",
        tags=["memory"],
    )
    def post(self, request: Request, chat_id: UUID, version: int) -> Response:
        user = caller(request)
        chat = get_chat(user, chat_id)
        body = RestoreIn(data=request.data)
        body.is_valid(raise_exception=True)
        pauses = body.validated_data["pause"]
        return Response(brief_json(restore(chat, version, user, on_demand=True, pauses=pauses)))


class ResummarizeView(APIView):
    @extend_schema(
        request=ResummarizeIn,
        responses={202: TaskOut},
        operation_id="resummarize",
        examples=example({"mode": "update"}),
        summary="Update or rebuild memory",
        description="In the background: poll the memory in use. `update` summarizes all but the newest "
        "turns, due or not; `rebuild` writes memory anew from the original messages.",
        tags=["memory"],
    )
    def post(self, request: Request, chat_id: UUID) -> Response:
        chat = get_chat(caller(request), chat_id)
        body = ResummarizeIn(data=request.data)
        body.is_valid(raise_exception=True)
        task_id = demand_resummarize(chat, body.validated_data["mode"])
        return Response({"task_id": task_id}, status=202)


class ContextView(APIView):
    """Preview the prompt that the model would be sent now.

    The question is in the body, because query strings end up in the logs of proxies.
    """

    @extend_schema(
        request=ContextIn,
        responses=ContextOut,
        operation_id="context_preview",
        examples=example({"message": "Where is my order?", "budget": 2000}),
        summary="Preview the next prompt",
        description="The prompt section by section, for the given question or without one; also under "
        "another policy, with another budget or with sources. Nothing is sent or stored.",
        tags=["memory"],
    )
    def post(self, request: Request, chat_id: UUID) -> Response:
        chat = get_chat(caller(request), chat_id)
        body = ContextIn(data=request.data)
        body.is_valid(raise_exception=True)
        asked = body.validated_data
        sources = [Source(source["title"], source["text"]) for source in asked["sources"]]
        context = preview(
            chat, asked["message"], policy=asked.get("policy"), budget=asked.get("budget"), sources=sources
        )
        brief = ConversationBrief.objects.filter(chat=chat).first()
        return Response(context_json(context, history_tokens(brief)))


class PastContextView(APIView):
    @extend_schema(
        responses=ContextOut,
        operation_id="messages_context",
        summary="Get the prompt sent for a reply",
        description="Rebuilt from its record and verified by its hash. Where a message was edited or "
        "deleted since, it says so.",
        tags=["memory"],
    )
    def get(self, request: Request, chat_id: UUID, message_id: UUID) -> Response:
        reply = get_message(get_chat(caller(request), chat_id), message_id)
        past = past_context(reply)
        if past is None:
            raise NotFound("No model was asked for this message.")
        why = why_not_exact(reply, *past)
        told = {"exact": why is None, "why": why, "card": card_of(reply)}
        context, sent = past
        return Response({**context_json(context, sent.history_tokens, sent.prompt_hash), **told})


class UsageView(APIView):
    @extend_schema(
        parameters=[UsageQuery],
        responses=UsageDaysOut,
        operation_id="usage_read",
        summary="Get token usage and cost per day",
        description="Tokens and cost of your replies, a row per day and model variant.",
        tags=["account"],
    )
    def get(self, request: Request) -> Response:
        query = UsageQuery(data=request.query_params.dict())  # as text: in a form, "" would be no value
        query.is_valid(raise_exception=True)
        rows = daily.days_of(caller(request), **query.validated_data)
        return Response({"results": rows})


class SummarizeView(LimitedView):
    """Summarize for clients that manage their own history."""

    is_stateless = True

    @extend_schema(
        request=SummarizeIn,
        responses=SummarizeOut,
        operation_id="summarize",
        examples=example(
            {
                "messages": [
                    {"role": "user", "content": "My order AB-1234 has not arrived."},
                    {"role": "assistant", "content": "It was sent on 4 May and arrives tomorrow."},
                ]
            }
        ),
        summary="Summarize a client-side history (stateless)",
        description="By the policy `interval` unless another is named. A message that begins with its opening words is "
        "taken for the previous summary.",
        tags=["stateless"],
    )
    def post(self, request: Request) -> tuple[SummaryRequest, int]:
        body = SummarizeIn(data=request.data)
        body.is_valid(raise_exception=True)
        refuse_when_draining()
        asked = body.validated_data
        wanted = SummaryRequest(asked["policy"], asked["previous_summary"], spoken(asked["messages"]))
        return wanted, count_prompt(wanted.messages, wanted.previous)

    async def answer(self, opened: Any) -> HttpResponseBase:
        wanted, tokens = opened
        patience = TimeLeft(settings.REPLY_DEADLINES.total)
        call = await begin_call(caller(self.request).pk, tokens, settings.SUMMARIZER)
        spent: int | None = None
        try:
            made = await cancel_on_drain(executors.apart(partial(summarize, wanted, patience)))
            told = made.usage.input_tokens + made.usage.output_tokens
            spent = told or tokens + count_tokens(made.state.summary)
        finally:
            patience.end()
            await asyncio.shield(end_call(call, spent))
        return Response(summarized_json(made))
