"""The views of memory: read, update, pause, restore and estimate it, and fold histories that are not stored."""

import asyncio
from collections.abc import Callable
from functools import partial
from threading import Event
from uuid import UUID

from django.conf import settings
from django.db.models import F
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from chatmemory.api.http import PAGING, CursorPages, caller, example, validated
from chatmemory.database import executors
from chatmemory.errors import NotFound
from chatmemory.llm.protocol import Prompt
from chatmemory.text.tokens import count_tokens
from conversations.api.replies import LimitedView
from conversations.api.serializers import Period, to_prompt_messages
from conversations.models import get_chat, get_message, usage_json
from conversations.replies import generation
from memory import conf
from memory.api import serializers
from memory.api.serializers import brief_json, context_json, memory_operation
from memory.briefs import brief_of, history_tokens
from memory.context.build import card_of, past_context, preview, why_not_exact
from memory.context.plan import Source
from memory.explain.sources import sources_of_reply
from memory.folding.request import demand_resummarize, estimate_for
from memory.folding.stateless import summarize
from memory.folding.summarizer import Folded
from memory.models import MAX_PINS, ConversationBrief, Pin, SummaryRevision
from memory.pins import pins
from memory.revisions import by_hand, diff
from memory.usage import daily


class BriefViews(ViewSet):
    """The memory in use, and the work on it."""

    @memory_operation(responses=serializers.BriefOut, operation_id="brief_read")
    def read(self, request: Request, chat_id: UUID) -> Response:
        """Get the current memory. The summary in use, how far it reaches, and what is not summarized yet."""
        return Response(brief_json(brief_of(get_chat(caller(request), chat_id))))

    @memory_operation(request=None, responses=serializers.BriefOut, operation_id="brief_pause")
    def pause(self, request: Request, chat_id: UUID) -> Response:
        """Pause summary updates. The summary stays as it is, and an update under way is dropped. Newer messages stay in
        the prompt, in full or as one-line summaries; those that have no room can still be recalled. Updates resume by
        themselves when what was said since the pause no longer fits.
        """
        user = caller(request)
        return Response(brief_json(by_hand.pause_updates(get_chat(user, chat_id), user)))

    @memory_operation(request=None, responses=serializers.BriefOut, operation_id="brief_resume")
    def resume(self, request: Request, chat_id: UUID) -> Response:
        """Resume summary updates. What waited is summarized in the background if it is due. So is it by an update or a
        rebuild, which resume, too.
        """
        user = caller(request)
        return Response(brief_json(by_hand.resume_updates(get_chat(user, chat_id), user, on_demand=True)))

    @memory_operation(request=None, responses=serializers.BriefOut, operation_id="brief_clear")
    def clear(self, request: Request, chat_id: UUID) -> Response:
        """Clear the summary. The summary starts over with the messages that are not summarized yet. No message is
        removed: older ones can still be recalled. To undo it, restore the previous version; a rebuild summarizes
        everything again.
        """
        user = caller(request)
        return Response(brief_json(by_hand.clear(get_chat(user, chat_id), user, on_demand=True)))

    @memory_operation(
        parameters=[serializers.EstimateQuery],
        responses=serializers.EstimateOut,
        operation_id="estimate_read",
    )
    def estimate(self, request: Request, chat_id: UUID) -> Response:
        """Estimate an update or a rebuild. What it would take to update or rebuild the memory, to switch to another
        policy, or to go on from an older version. Nothing is done, and no model is asked.
        """
        chat = get_chat(caller(request), chat_id)
        query = validated(serializers.EstimateQuery, request.query_params.dict())
        mode, after = query["mode"], None
        if version := query.get("restore"):
            mode, after = "update", by_hand.get_revision(chat, version).through_seq
        elif policy := query.get("policy"):
            mode, chat.policy = "rebuild", policy  # only for the estimate: it is not saved
        return Response(serializers.EstimateOut(estimate_for(chat, mode, after_seq=after)).data)

    @memory_operation(
        request=serializers.ResummarizeIn,
        responses={202: serializers.TaskOut},
        operation_id="resummarize",
        examples=example({"mode": "update"}),
    )
    def resummarize(self, request: Request, chat_id: UUID) -> Response:
        """Update or rebuild memory. In the background: poll the memory in use. `update` summarizes all but the newest
        turns, due or not; `rebuild` writes memory anew from the original messages.
        """
        chat = get_chat(caller(request), chat_id)
        task_id = demand_resummarize(chat, validated(serializers.ResummarizeIn, request.data)["mode"])
        return Response({"task_id": task_id}, status=202)


class RevisionViews(ViewSet):
    """The versions of the memory."""

    @memory_operation(parameters=PAGING, responses=serializers.RevisionsPageOut, operation_id="revisions_list")
    def page(self, request: Request, chat_id: UUID) -> Response:
        """List versions of the summary. All versions of the summary, newest first, with what each kept and cost."""
        rows = SummaryRevision.objects.filter(chat=get_chat(caller(request), chat_id))
        return CursorPages("-version", page_size=20).respond(rows, request, serializers.RevisionOut)

    @memory_operation(responses=serializers.RevisionOut, operation_id="revisions_read")
    def read(self, request: Request, chat_id: UUID, version: int) -> Response:
        """Get a version. Its text, what it was made from, by which model, and what it kept and lost."""
        return Response(serializers.RevisionOut(by_hand.get_revision(get_chat(caller(request), chat_id), version)).data)

    @memory_operation(
        parameters=[serializers.DifferenceQuery],
        responses=serializers.DifferenceOut,
        operation_id="revisions_diff",
    )
    def compare(self, request: Request, chat_id: UUID, version: int) -> Response:
        """Compare two versions. Word by word, against the parent version or any other. `lost` and `gained` list the
        numbers, ids and names that were removed or added.
        """
        revision = by_hand.get_revision(get_chat(caller(request), chat_id), version)
        against = validated(serializers.DifferenceQuery, request.query_params.dict()).get("against")
        older = diff.parent_of(revision) if against is None else by_hand.get_revision(revision.chat, against)
        return Response(serializers.DifferenceOut(diff.difference(revision, older)).data)

    @memory_operation(
        request=serializers.RestoreIn,
        responses=serializers.BriefOut,
        operation_id="revisions_restore",
        examples=example({"pause": True}),
    )
    def restore(self, request: Request, chat_id: UUID, version: int) -> Response:
        """Restore a version. Its text becomes the current memory, as a new version. Newer messages are summarized
        again, or, with `pause`, wait until updates are resumed.
        """
        user = caller(request)
        chat = get_chat(user, chat_id)
        pauses = validated(serializers.RestoreIn, request.data)["pause"]
        return Response(brief_json(by_hand.restore(chat, version, user, on_demand=True, pauses=pauses)))


NO_PROMPT = "No model was asked for this message."


class ContextViews(ViewSet):
    """The next prompt, and the prompts of past replies."""

    # The question is in the body, because query strings end up in the logs of proxies.
    @memory_operation(
        request=serializers.ContextIn,
        responses=serializers.ContextOut,
        operation_id="context_preview",
        examples=example({"message": "Where is my order?", "budget": 2000}),
    )
    def next_prompt(self, request: Request, chat_id: UUID) -> Response:
        """Preview the next prompt. The prompt section by section, for the given question or without one; also under
        another policy, with another budget or with sources. Nothing is sent or stored.
        """
        chat = get_chat(caller(request), chat_id)
        fields = validated(serializers.ContextIn, request.data)
        question, sources = fields.pop("message"), fields.pop("sources")
        context = preview(chat, question, sources=[Source(**source) for source in sources], **fields)
        brief = ConversationBrief.objects.filter(chat=chat).first()
        return Response(context_json(context, history_tokens(brief)))

    @memory_operation(responses=serializers.ContextOut, operation_id="messages_context")
    def sent_prompt(self, request: Request, chat_id: UUID, message_id: UUID) -> Response:
        """Get the prompt sent for a reply. Rebuilt from its record and verified by its hash. Where a message was edited
        or deleted since, it says so.
        """
        reply = get_message(get_chat(caller(request), chat_id), message_id)
        past = past_context(reply)
        if past is None:
            raise NotFound(NO_PROMPT)
        context, sent = past
        why = why_not_exact(reply, context, sent)
        checked = {"verified": why is None, "exact": why is None, "why": why, "card": card_of(reply)}
        return Response(context_json(context, sent.history_tokens, prompt_hash=sent.prompt_hash, **checked))

    @memory_operation(responses=serializers.SourcesOut, operation_id="messages_sources")
    def sources(self, request: Request, chat_id: UUID, message_id: UUID) -> Response:
        """Get the sources of a reply. Which pins, lines of the summary and earlier messages stood in its prompt, in the
        order of the prompt, as they are now; also while it is being written. What was deleted since is left out.
        """
        found = sources_of_reply(get_message(get_chat(caller(request), chat_id), message_id))
        if found is None:
            raise NotFound(NO_PROMPT)
        return Response(serializers.SourcesOut({"results": found}).data)


class PinViews(ViewSet):
    """Statements that are in every prompt until they are removed."""

    @memory_operation(
        parameters=[serializers.PinsQuery, *PAGING], responses=serializers.PinsPageOut, operation_id="pins_list"
    )
    def page(self, request: Request, chat_id: UUID) -> Response:
        """List pins. Pins are in every prompt of the chat until they are removed."""
        rows = Pin.objects.filter(chat=get_chat(caller(request), chat_id))
        if not validated(serializers.PinsQuery, request.query_params.dict())["ended"]:
            rows = rows.filter(ended_at__isnull=True)
        pages = CursorPages("-seq", "-start", "-id", filters=["ended"])
        return pages.respond(rows.annotate(ended_in=F("ended_by__chat_id")), request, serializers.PinOut)

    @memory_operation(
        request=serializers.PIN_IN,
        responses={201: serializers.PinOut, 200: serializers.PinOut},
        operation_id="pins_create",
        summary="Pin a text or a message",
        description=f"A chat has at most {MAX_PINS} pins. An existing pin is returned with 200.",
        examples=[OpenApiExample("A text", value={"text": "Answer in metric units."}, request_only=True)],
    )
    def pin(self, request: Request, chat_id: UUID) -> Response:
        user = caller(request)
        get_chat(user, chat_id)
        is_message = isinstance(request.data, dict) and "message_id" in request.data
        if is_message and "text" in request.data:
            raise ValidationError({"text": ["Give either text or message_id, not both."]})
        fields = validated(serializers.PinMessageIn if is_message else serializers.PinTextIn, request.data)
        pin, is_new = pins.pin(user, chat_id, **fields)
        return Response(serializers.PinOut(pin).data, status=201 if is_new else 200)

    @memory_operation(
        request=serializers.PinChangeIn,
        responses=serializers.PinOut,
        operation_id="pins_update",
        examples=example({"scope": "person"}),
    )
    def change(self, request: Request, chat_id: UUID, pin_id: UUID) -> Response:
        """Update a pin. Only what is sent changes: its text, in which chats it holds, whether prompts have it."""
        fields = validated(serializers.PinChangeIn, request.data)
        return Response(serializers.PinOut(pins.change(caller(request), chat_id, pin_id, **fields)).data)

    @memory_operation(request=None, responses={204: None}, operation_id="pins_delete")
    def unpin(self, request: Request, chat_id: UUID, pin_id: UUID) -> Response:
        """Remove a pin. From the next prompt on. The message it came from is not changed."""
        pins.unpin(get_chat(caller(request), chat_id), pin_id)
        return Response(status=204)


class UsageView(APIView):
    @extend_schema(parameters=[Period], responses=serializers.UsageDaysOut, operation_id="usage_read", tags=["account"])
    def get(self, request: Request) -> Response:
        """Get token usage and cost per day. Tokens and cost of your replies, a row per day and model variant."""
        # A dict of texts: in a form, "" would be no value.
        query = validated(Period, request.query_params.dict())
        return Response({"results": daily.days_of(caller(request), **query)})


Work = tuple[Callable[[Event], Folded], int]
"""The function that folds a history, given the event that ends it; and the tokens of its prompt."""


class SummarizeView(LimitedView[Work]):
    """Summarize for clients that manage their own history."""

    is_stateless = True

    @extend_schema(
        request=serializers.SummarizeIn,
        responses=serializers.SummarizeOut,
        operation_id="summarize",
        examples=example(
            {
                "messages": [
                    {"role": "user", "content": "My order AB-1234 has not arrived."},
                    {"role": "assistant", "content": "It was sent on 4 May and arrives tomorrow."},
                ]
            }
        ),
        tags=["stateless"],
    )
    def post(self, request: Request) -> Work:
        """Summarize a client-side history (stateless). By the policy `interval` unless another is named. A message that
        begins with its opening words is taken for the previous summary.
        """
        fields = validated(serializers.SummarizeIn, request.data)
        generation.refuse_when_draining()
        messages, previous = to_prompt_messages(fields["messages"]), fields["previous_summary"]
        seconds = settings.REPLY_DEADLINES.total
        work = partial(summarize, fields["policy"], previous, messages, seconds)
        return work, generation.count_prompt(Prompt(messages, instructions=previous))

    async def respond(self, prepared: Work) -> HttpResponseBase:
        work, tokens = prepared
        call = await generation.begin_call(caller(self.request), tokens, conf.summarizer())
        spent: int | None = None
        ended = Event()
        try:
            folded = await generation.cancel_on_drain(executors.apart(partial(work, ended)))
            spent = folded.usage.total or tokens + count_tokens(folded.state.summary)
        finally:
            ended.set()
            await asyncio.shield(generation.end_call(call, spent))
        return Response(
            {
                "summary": folded.state.summary,
                "state": folded.state.to_json(),
                "usage": usage_json(folded.usage, folded.cost_usd),
            }
        )
