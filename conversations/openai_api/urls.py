from django.urls import path, re_path

from conversations.openai_api import completions, models_view, not_served

urlpatterns = [
    path("chat/completions", completions.CompletionsView.as_view()),
    path("models", models_view.ModelsView.as_view()),
    path("models/<path:name>", models_view.ModelView.as_view()),
    re_path(rf"^(?:{not_served.PATHS})(?:/.*)?$", not_served.not_served),
]
