"""The paths of OpenAI's API."""

from uuid import UUID

from django.urls import path, register_converter

from conversations.openai_api.conversation_view import CompletionsView
from conversations.openai_api.embeddings import EmbeddingsView
from conversations.openai_api.response_request import RESPONSE_ID, reply_id, response_id
from conversations.openai_api.responses import CancelResponseView, InputItemsView, ResponsesView, ResponseView
from conversations.openai_api.views import ModelsView, ModelView


class ResponseId:
    """`resp_` and the id of the reply."""

    regex = RESPONSE_ID.pattern

    def to_python(self, value: str) -> UUID:
        return reply_id(value)

    def to_url(self, value: UUID) -> str:
        return response_id(value)


register_converter(ResponseId, "response")

urlpatterns = [
    path("chat/completions", CompletionsView.as_view()),
    path("responses", ResponsesView.as_view()),
    path("responses/<response:response_id>", ResponseView.as_view()),
    path("responses/<response:response_id>/cancel", CancelResponseView.as_view()),
    path("responses/<response:response_id>/input_items", InputItemsView.as_view()),
    path("embeddings", EmbeddingsView.as_view()),
    path("models", ModelsView.as_view()),
    path("models/<path:model>", ModelView.as_view()),
]
