"""`/v1/responses`: create, read, follow, cancel and delete a response."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Never
from uuid import UUID

from django.contrib.auth.models import User
from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.api.http import caller, validated
from chatmemory.database import executors
from chatmemory.database.owned import ChatKey
from chatmemory.llm import registry
from conversations.api.replies import CancelView
from conversations.models import Status
from conversations.openai_api import response_request, schema
from conversations.openai_api.conversation_view import (
    ConversationView,
    Prepared,
    end_user_of,
    pieces,
    project_of,
)
from conversations.openai_api.model_names import variant_named
from conversations.openai_api.response import ResponseFormat
from conversations.openai_api.stored_responses import input_items, items_by_id, response_of, stored_response
from conversations.openai_api.views import OpenAIView
from conversations.openai_api.wire import ChatRequest, RequestLimits
from conversations.replies import stream
from conversations.replies.reply import ReplyHead
from conversations.replies.stream import streamed


class ResponsesView(ConversationView):
    @schema.responses_create
    def post(self, request: Request) -> Prepared:
        """A response with memory, for OpenAI's clients. Continues the response or the conversation that is named, or
        finds the chat that the items belong to; stores what is new, and sends the model a prompt within the budget.
        Errors have OpenAI's shape.
        """
        return self.prepared(request)

    def read(self, data: object, user: User, limits: RequestLimits) -> ChatRequest:
        body = response_request.read_response(data, limits)
        end_user = end_user_of(user, body.parameters, project_of(self.request))
        found = items_by_id(user, end_user, body.references)
        upstream = registry.upstream_of(variant_named(body.model))
        return body.request(found, has_hosted_tools=upstream is not None and upstream.style == "responses")

    def formatted(self, body: ChatRequest, *, is_stored: bool) -> ResponseFormat:
        return ResponseFormat(body.model, body.shown or {}, body.instructions, body.tools, is_stored)


class ResponseView(OpenAIView[Never]):
    """A stored response."""

    @schema.responses_read
    def get(self, request: Request, response_id: str) -> HttpResponseBase:
        """A response, as it is now. With `stream=true` its events, those after `starting_after`: a stream that broke
        off goes on there, whichever process writes the response.
        """
        user = caller(request)
        head, response, end = response_of(stored_response(user, response_id))
        self.answer_headers[schema.CHAT] = str(head.chat.id)
        query = validated(schema.ResponseQuery, request.query_params.dict())
        if not query["stream"]:
            return Response(response.whole(end))
        response = replace(response, after=query["starting_after"])
        return streamed(_events(head, response), stream.take_slot(user.pk))

    @schema.responses_delete
    def delete(self, request: Request, response_id: str) -> Response:
        """Delete a response. The messages stay in their chat, and in memory: delete them with the chat's own calls."""
        turn = stored_response(caller(request), response_id)
        turn.response = None
        turn.save(update_fields=["response"])
        return Response({"id": response_id, "object": "response", "deleted": True})


async def _events(head: ReplyHead, response: ResponseFormat) -> AsyncIterator[bytes]:
    reply = stream.reply_of(head.chat, head.message_id)
    async for piece in pieces(response, reply, head.prompt_tokens, after=response.sent):
        yield piece


class CancelResponseView(OpenAIView[tuple[ChatKey, UUID]], CancelView):
    @schema.responses_cancel
    def post(self, request: Request, response_id: str) -> Response | tuple[ChatKey, UUID]:  # type: ignore[override]  # another path
        """Cancel a response. What was said so far is kept. If it has already ended, the answer is 409."""
        turn = stored_response(caller(request), response_id)
        _, response, end = response_of(turn)
        if end is not None and end.status == Status.CANCELLED:
            return Response(response.whole(end))
        return super().post(request, turn.chat_id, turn.message_id)

    async def respond(self, prepared: tuple[ChatKey, UUID]) -> HttpResponseBase:
        await super().respond(prepared)
        user, response_id = caller(self.request), self.kwargs["response_id"]
        _, response, end = await executors.read(lambda: response_of(stored_response(user, response_id)))
        return Response(response.whole(end))


class InputItemsView(OpenAIView[None]):
    @schema.responses_input_items
    def get(self, request: Request, response_id: str) -> Response:
        """List the input items of a response. Those that its request brought to the chat, not what was said before."""
        items = input_items(stored_response(caller(request), response_id))
        query = validated(schema.InputItemsQuery, request.query_params.dict())
        if query["order"] == "desc":
            items.reverse()
        begin = next((at + 1 for at, one in enumerate(items) if one["id"] == query.get("after")), 0)
        page = items[begin : begin + query["limit"]]
        ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": None, "last_id": None}
        return Response({"object": "list", "data": page, **ends, "has_more": begin + len(page) < len(items)})
