"""`/v1/responses`: create, read, follow, cancel and delete a response."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Never
from uuid import UUID

from django.contrib.auth.models import User
from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.api.http import caller
from chatmemory.database import executors
from chatmemory.database.owned import ChatKey
from chatmemory.llm import registry
from conversations.api.replies import CancelView
from conversations.models import Status
from conversations.openai_api import response_request, schema
from conversations.openai_api.conversation_view import (
    CHAT,
    ConversationView,
    Prepared,
    end_user_of,
    pieces,
    project_of,
    request_limits,
    until_error,
)
from conversations.openai_api.errors import RequestError
from conversations.openai_api.model_names import variant_named
from conversations.openai_api.response import ResponseFormat
from conversations.openai_api.response_request import response_id as response_name
from conversations.openai_api.stored_responses import input_items, items_by_id, response_of, stored_response
from conversations.openai_api.views import OpenAIView
from conversations.openai_api.wire import ChatRequest
from conversations.replies import stream
from conversations.replies.reply import ReplyHead
from conversations.replies.stream import streamed

PAGE, MAX_PAGE = 20, 100


class ResponsesView(ConversationView):
    @schema.responses_create
    def post(self, request: Request) -> Prepared:
        """A response with memory, for OpenAI's clients. Continues the response or the conversation that is named, or
        finds the chat that the items belong to; stores what is new, and sends the model a prompt within the budget.
        Errors have OpenAI's shape.
        """
        return self.prepared(request)

    def read(self, data: object, user: User) -> ChatRequest:
        body = response_request.read_response(data, request_limits())
        ids = body.references
        found = items_by_id(user, end_user_of(user, body.parameters, project_of(self.request)), ids) if ids else {}
        upstream = registry.upstream_of(variant_named(body.body.model))
        return body.request(found, has_hosted_tools=upstream is not None and upstream.style == "responses")

    def formatted(self, body: ChatRequest) -> Callable[[UUID, bool], ResponseFormat]:
        model, shown, instructions, tools = body.model, body.shown or {}, body.instructions, body.tools
        return lambda message_id, is_stored: ResponseFormat(message_id, model, shown, instructions, tools, is_stored)


class ResponseView(OpenAIView[Never]):
    """A stored response."""

    @schema.responses_read
    def get(self, request: Request, response_id: UUID) -> HttpResponseBase:
        """A response, as it is now. With `stream=true` its events, those after `starting_after`: a stream that broke
        off goes on there, whichever process writes the response.
        """
        user = caller(request)
        head, response, end = response_of(stored_response(user, response_id))
        self.answer_headers[CHAT] = str(head.chat.id)
        if request.query_params.get("stream", "").lower() != "true":
            return Response(response.whole(end))
        response = replace(response, after=_number(request, "starting_after", -1))
        return streamed(until_error(_events(head, response), response), stream.take_slot(user.pk))

    @schema.responses_delete
    def delete(self, request: Request, response_id: UUID) -> Response:
        """Delete a response. The messages stay in their chat, and in memory: delete them with the chat's own calls."""
        turn = stored_response(caller(request), response_id)
        turn.response = None
        turn.save(update_fields=["response"])
        return Response({"id": response_name(response_id), "object": "response", "deleted": True})


async def _events(head: ReplyHead, response: ResponseFormat) -> AsyncIterator[bytes]:
    reply = stream.reply_of(head.chat, head.message_id)
    async for piece in pieces(response, reply, head.prompt_tokens, after=response.sent):
        yield piece


class CancelResponseView(OpenAIView[tuple[ChatKey, UUID]], CancelView):
    @schema.responses_cancel
    def post(self, request: Request, response_id: UUID) -> Response | tuple[ChatKey, UUID]:  # type: ignore[override]  # another path
        """Cancel a response. What was said so far is kept. If it has already ended, the answer is 409."""
        turn = stored_response(caller(request), response_id)
        _, response, end = response_of(turn)
        if end is not None and end.status == Status.CANCELLED:
            return Response(response.whole(end))
        return super().post(request, turn.chat_id, turn.message_id)

    async def respond(self, prepared: tuple[ChatKey, UUID]) -> HttpResponseBase:
        await super().respond(prepared)
        user, (_, reply_id) = caller(self.request), prepared
        _, response, end = await executors.read(lambda: response_of(stored_response(user, reply_id)))
        return Response(response.whole(end))


class InputItemsView(OpenAIView[None]):
    @schema.responses_input_items
    def get(self, request: Request, response_id: UUID) -> Response:
        """List the input items of a response. Those that its request brought to the chat, not what was said before."""
        items = input_items(stored_response(caller(request), response_id))
        if request.query_params.get("order", "desc") != "asc":
            items.reverse()
        after = request.query_params.get("after")
        begin = next((at + 1 for at, one in enumerate(items) if one["id"] == after), 0)
        limit = _number(request, "limit", PAGE)
        if not 1 <= limit <= MAX_PAGE:
            raise RequestError(f"'limit' is between 1 and {MAX_PAGE}.", param="limit", code="invalid_value")
        page = items[begin : begin + limit]
        ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": None, "last_id": None}
        return Response({"object": "list", "data": page, **ends, "has_more": begin + limit < len(items)})


def _number(request: Request, name: str, default: int) -> int:
    """Return a query parameter that is a number of at most nine digits. Raises `RequestError`."""
    given = request.query_params.get(name, str(default))
    digits = given.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise RequestError(f"'{name}' is not a number.", param=name, code="invalid_value")
    return int(given)
