"""Paths of OpenAI's API that are not served: a 404 in its format, which its SDKs show, says what to use instead."""

from __future__ import annotations

import re
from typing import Final

from django.http import HttpRequest, HttpResponse, JsonResponse

from chatmemory.api import error_handler
from conversations.openai_api.errors import openai_body

PATHS: Final = re.compile(
    "/v1/(?:responses|completions|chat/completions|embeddings|conversations|assistants|threads|vector_stores|files"
    "|uploads|batches|fine_tuning|images|audio|moderations|realtime|videos|containers|evals)(?:/.*)?"
)
INSTEAD: Final = (
    "This server has Chat Completions only: use `client.chat.completions` "
    "(in the Agents SDK `OpenAIChatCompletionsModel`); see /v1/docs."
)


def no_such_page(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """The handler for paths that do not exist: OpenAI's are answered in its format, all others in ours."""
    if PATHS.fullmatch(request.path):
        return JsonResponse(openai_body(404, {"code": "not_found", "message": INSTEAD}), status=404)
    return error_handler.no_such_page(request, exception)
