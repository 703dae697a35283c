"""The base of all views of OpenAI's API, with its headers; and the views of models."""

import time
from typing import Never

from django.conf import settings
from django.contrib.auth.models import User
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chatmemory.api.async_view import P
from chatmemory.api.http import caller
from chatmemory.llm import registry
from conversations.accounts import quotas
from conversations.accounts.authentication import acting_for, acts_for_users, require_end_user
from conversations.accounts.end_users import checked_id
from conversations.api.replies import LimitedView
from conversations.api.serializers import ModelOut, ModelsOut
from conversations.openai_api import schema
from conversations.openai_api.errors import ModelNotFound, openai_body, retry_headers
from conversations.openai_api.model_names import model_object, named_models
from conversations.replies.begin import default_variant

VERSION = "2020-10-01"
"""The version of OpenAI's API that its servers report."""


class OpenAIView(LimitedView[P]):
    """A view for clients of OpenAI's API."""

    async def _serve(self) -> HttpResponseBase:
        began = time.perf_counter()
        self.answer_headers: dict[str, str] = {}
        """Further headers of the response, also of an error."""
        response = await super()._serve()
        for name, value in self.answer_headers.items():
            response[name] = value
        response["openai-version"] = VERSION
        response["openai-processing-ms"] = str(round((time.perf_counter() - began) * 1000))
        return response

    def identify(self, request: Request, data: object) -> User:
        """Return the user of the request: for an app that names none in a header, the end user whom the body names.

        Raises `InvalidRequest` if there must be one. The response will tell what is left of the user's limits.
        """
        user, token = caller(request), request.auth
        if isinstance(data, dict) and acts_for_users(token) and token.user_id == user.pk:
            named = [data[key] for key in ("safety_identifier", "user") if data.get(key) is not None]
            if named and isinstance(named[0], str):
                user = request.user = acting_for(token, checked_id(named[0]))
        require_end_user(request)
        for name, (allowed, left, seconds) in quotas.remaining(user.pk).items():
            self.answer_headers[f"x-ratelimit-limit-{name}"] = str(allowed)
            self.answer_headers[f"x-ratelimit-remaining-{name}"] = str(left)
            self.answer_headers[f"x-ratelimit-reset-{name}"] = f"{seconds}s"
        return user

    def _failed(self, exc: Exception) -> Response:
        response = super()._failed(exc)
        status, ours = response.status_code, response.data["error"]
        response.data = openai_body(status, ours, exc)
        for name, value in retry_headers(status, exc, ours["code"], response.get("Retry-After")).items():
            response[name] = value
        return response


class ModelsView(APIView):
    """Our own list of variants and OpenAI's list of models in one. Its errors are in our format."""

    @extend_schema(responses=ModelsOut, operation_id="models_list", tags=["account"])
    def get(self, request: Request) -> Response:
        """The model variants you may choose. The names that `model_variant` may have."""
        return Response(
            {
                "object": "list",
                "data": [model_object(name) for name in named_models()],
                "results": ModelOut(settings.MODEL_VARIANTS.values(), many=True).data,
                "offline": registry.upstream_of(default_variant()) is None,
            }
        )


class ModelView(OpenAIView[Never]):
    @schema.models_read
    def get(self, request: Request, model: str) -> Response:
        """A model, as OpenAI's clients retrieve it. One of `data` in `GET /v1/models`. Errors have OpenAI's shape."""
        if model not in (known := named_models()):
            raise ModelNotFound(model, known)
        return Response(model_object(model))
