"""`POST /v1/chat/completions`."""

import time
from collections.abc import Callable
from uuid import UUID

from django.contrib.auth.models import User
from rest_framework.request import Request

from conversations.openai_api import chat_request, schema
from conversations.openai_api.answer import CompletionFormat, completion_id
from conversations.openai_api.conversation_view import ConversationView, Prepared, request_limits, takes
from conversations.openai_api.wire import ChatRequest


class CompletionsView(ConversationView):
    wording = chat_request.WORDING

    @schema.completions_create
    def post(self, request: Request) -> Prepared:
        """A completion with memory, for OpenAI's clients. Finds the chat that the messages belong to, stores what is
        new, and sends the model a prompt within the budget instead of the history. Errors have OpenAI's shape.
        """
        return self.prepared(request)

    def read(self, data: object, user: User) -> ChatRequest:
        return chat_request.read_request(data, request_limits(), takes)

    def formatted(self, body: ChatRequest) -> Callable[[UUID, bool], CompletionFormat]:
        created, model, with_usage = int(time.time()), body.model, body.include_usage
        return lambda message_id, is_stored: CompletionFormat(completion_id(message_id), created, model, with_usage)
