from django.urls import path

from conversations.openai_api.completions import CompletionsView
from conversations.openai_api.embeddings import EmbeddingsView
from conversations.openai_api.responses import CancelResponseView, InputItemsView, ResponsesView, ResponseView
from conversations.openai_api.views import ModelsView, ModelView

urlpatterns = [
    path("chat/completions", CompletionsView.as_view()),
    path("responses", ResponsesView.as_view()),
    path("responses/<str:response_id>", ResponseView.as_view()),
    path("responses/<str:response_id>/cancel", CancelResponseView.as_view()),
    path("responses/<str:response_id>/input_items", InputItemsView.as_view()),
    path("embeddings", EmbeddingsView.as_view()),
    path("models", ModelsView.as_view()),
    path("models/<path:model>", ModelView.as_view()),
]
