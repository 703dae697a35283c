"""Paths of OpenAI's API that are not served: a 404 in its format, which its SDKs show, says what to use instead."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from conversations.openai_api.errors import openai_body

PATHS: Final = (
    "responses|completions|chat/completions|embeddings|conversations|assistants|threads|vector_stores|files|uploads"
    "|batches|fine_tuning|images|audio|moderations|realtime|videos|containers|evals"
)
INSTEAD: Final = (
    "This server has Chat Completions only: use `client.chat.completions` "
    "(in the Agents SDK `OpenAIChatCompletionsModel`); see /v1/docs."
)


@csrf_exempt
def not_served(request: HttpRequest, *_: object) -> JsonResponse:
    """Answer 404, whatever the method and whoever asks."""
    return JsonResponse(openai_body(404, {"code": "not_found", "message": INSTEAD}), status=404)
