"""Views of the models that a client may choose."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chatmemory.llm import registry
from conversations.api.serializers import ModelsOut
from conversations.openai_api import schema
from conversations.openai_api.chat_answer import unix
from conversations.openai_api.errors import ModelNotFound
from conversations.openai_api.model_names import model_names, model_object, model_objects
from conversations.openai_api.view import OpenAIView

STARTED = unix(timezone.now())
"""Start of this process, reported as the creation time of models, whose real one is unknown."""


class ModelsView(APIView):
    """Our own list of variants and OpenAI's list of models in one. Its errors are in our format."""

    @extend_schema(
        responses=ModelsOut,
        operation_id="models_list",
        summary="The model variants you may choose",
        description="The names that `model_variant` may have.",
        tags=["account"],
    )
    def get(self, request: Request) -> Response:
        variants, aliases = settings.MODEL_VARIANTS, settings.OPENAI_MODEL_ALIASES
        return Response(
            {
                "object": "list",
                "data": model_objects(variants, aliases, STARTED),
                "results": [_variant(variant) for variant in variants.values()],
                "offline": registry.is_offline(),
            }
        )


class ModelView(OpenAIView):
    @schema.models_read
    def get(self, request: Request, model: str) -> Response:
        known = model_names(settings.MODEL_VARIANTS, settings.OPENAI_MODEL_ALIASES)
        if model not in known:
            raise ModelNotFound(model, known)
        return Response(model_object(model, STARTED))


def _variant(variant: Any) -> dict[str, Any]:
    return {
        "name": variant.name,
        "model": variant.model,
        "reasoning_effort": variant.reasoning_effort,
        "max_output_tokens": variant.max_output_tokens,
        "default": variant.name == settings.DEFAULT_MODEL_VARIANT,
        "price": variant.price
        and {name: float(getattr(variant.price, name)) for name in ("input", "cached", "output")},
    }
