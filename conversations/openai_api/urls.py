from django.urls import path

from conversations.openai_api import completions, stored

urlpatterns = [
    path("chat/completions", completions.CompletionsView.as_view()),
    path("chat/completions/<str:name>", stored.StoredCompletionView.as_view()),
    path("chat/completions/<str:name>/messages", stored.StoredMessagesView.as_view()),
    path("models", stored.ModelsView.as_view()),
    path("models/<path:name>", stored.ModelView.as_view()),
]
