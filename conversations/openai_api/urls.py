from django.urls import path

from conversations.openai_api import completions, models_view

urlpatterns = [
    path("chat/completions", completions.CompletionsView.as_view()),
    path("models", models_view.ModelsView.as_view()),
    path("models/<path:model>", models_view.ModelView.as_view()),
]
