from django.urls import path

from conversations.openai_api.completions import CompletionsView
from conversations.openai_api.views import ModelsView, ModelView

urlpatterns = [
    path("chat/completions", CompletionsView.as_view()),
    path("models", ModelsView.as_view()),
    path("models/<path:model>", ModelView.as_view()),
]
