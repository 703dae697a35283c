"""Base of all views of OpenAI's API: errors in its format, and its headers on every response."""

from __future__ import annotations

import time
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework.response import Response

from conversations.accounts import quotas
from conversations.api.limited_view import LimitedView
from conversations.openai_api.errors import ModelFailed, RequestError, openai_body, retry_headers

VERSION = "2020-10-01"
"""The version of OpenAI's API that its servers report."""


class OpenAIView(LimitedView):
    """A view for clients of OpenAI's API."""

    limits: dict[str, quotas.Remaining]
    """What the caller has left of its limits, if the view has looked it up."""

    async def _serve(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        began = time.perf_counter()
        self.limits = {}
        response = await super()._serve(request, *args, **kwargs)
        response["openai-version"] = VERSION
        response["openai-processing-ms"] = str(round((time.perf_counter() - began) * 1000))
        for name, left in self.limits.items():
            response[f"x-ratelimit-limit-{name}"] = str(left.allowed)
            response[f"x-ratelimit-remaining-{name}"] = str(left.left)
            response[f"x-ratelimit-reset-{name}"] = f"{left.seconds}s"
        return response

    def _failed(self, exc: Exception) -> Response:
        if isinstance(exc, ModelFailed):
            return Response(exc.body(), status=exc.http_status, headers=exc.headers())
        response = super()._failed(exc)
        if isinstance(exc, RequestError):
            response.data = exc.body()
            return response
        ours = response.data["error"] if isinstance(response.data, dict) else {}
        response.data = openai_body(response.status_code, ours)
        told = retry_headers(response.status_code, str(ours.get("code")), response.get("Retry-After"))
        for name, value in told.items():
            response[name] = value
        return response
