"""The paths of OpenAI's API."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from conversations.openai_api.conversation_view import CompletionsView
from conversations.openai_api.embeddings import EmbeddingsView
from conversations.openai_api.response import RESPONSE_ID
from conversations.openai_api.responses import CancelResponseView, InputItemsView, ResponsesView, ResponseView
from conversations.openai_api.views import ModelsView, ModelView


class ResponseId(StringConverter):
    regex = RESPONSE_ID.pattern


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
