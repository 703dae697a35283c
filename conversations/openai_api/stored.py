"""Views of stored completions (list, retrieve, set metadata, delete) and of the models.

Their schema is OpenAI's, so ours leaves them out. A deleted completion is no longer listed; its messages stay in the
chat, where they can be forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.db.models.fields.json import KeyTransform
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chatmemory.api.http import caller
from chatmemory.errors import NotFound
from chatmemory.llm import registry
from chatmemory.llm.openai.requests import chat_call
from conversations.api.serializers import ModelsOut
from conversations.models import ChatCompletion, Message, Role
from conversations.openai_api.chat_answer import (
    completion_id,
    message_id_of,
    stored_completion,
    unix,
)
from conversations.openai_api.errors import ModelNotFound
from conversations.openai_api.listing import page_json, read_page
from conversations.openai_api.model_names import model_object, model_objects
from conversations.openai_api.request.chat_request import read_metadata
from conversations.openai_api.view import OpenAIView
from conversations.replies.open_turn import calls_of
from memory.services import outline_of, tools_of

STARTED = unix(timezone.now())
"""Start of this process, reported as the creation time of models, whose real one is unknown."""
_METADATA = re.compile(r"metadata\[(.{1,64})\]")


class StoredCompletionsList(OpenAIView):
    @extend_schema(exclude=True)
    def get(self, request: Request) -> Response:
        page = read_page(request.query_params)
        rows = ChatCompletion.objects.filter(user=caller(request))
        if model := request.query_params.get("model"):
            rows = rows.filter(model=model.replace("\0", ""))
        for count, (key, value) in enumerate(_wanted(request.query_params.dict()).items()):
            rows = rows.alias(**{f"m{count}": KeyTransform(key, "metadata")}).filter(**{f"m{count}": value})
        if page.after:
            after = _completion(request, page.after).message_id
            rows = (
                rows.filter(message_id__lt=after) if page.newest_first else rows.filter(message_id__gt=after)
            )
        ordered = rows.order_by("-message_id" if page.newest_first else "message_id")
        found = _shown(list(ordered[: page.limit + 1]))
        return Response(page_json(found, page.limit))


class StoredCompletionView(OpenAIView):
    @extend_schema(exclude=True)
    def get(self, request: Request, name: str) -> Response:
        return Response(_one(_completion(request, name)))

    @extend_schema(exclude=True)
    def post(self, request: Request, name: str) -> Response:
        completion = _completion(request, name)
        completion.metadata = read_metadata(
            (request.data if isinstance(request.data, dict) else {}).get("metadata")
        )
        completion.save(update_fields=["metadata"])
        return Response(_one(completion))

    @extend_schema(exclude=True)
    def delete(self, request: Request, name: str) -> Response:
        completion = _completion(request, name)
        told = completion_id(completion.message_id)
        completion.delete()
        return Response({"id": told, "object": "chat.completion.deleted", "deleted": True})


class StoredMessagesView(OpenAIView):
    @extend_schema(exclude=True)
    def get(self, request: Request, name: str) -> Response:
        completion, page = _completion(request, name), read_page(request.query_params)
        prefix = completion_id(completion.message_id)
        rows = Message.objects.filter(
            Q(token_count__gt=0) | Q(payload__isnull=False),
            chat_id=completion.chat_id,
            seq__lt=completion.seq,
            superseded_by=None,
        ).exclude(role=Role.TOOL_CALL)
        if page.after:
            seq = _place(page.after, prefix)
            rows = rows.filter(seq__lt=seq) if page.newest_first else rows.filter(seq__gt=seq)
        ordered = rows.order_by("-seq" if page.newest_first else "seq")[: page.limit + 1]
        found = [
            {"id": f"{prefix}-{row.seq}", "name": None, "content_parts": None, **_message_json(row)}
            for row in ordered
        ]
        return Response(page_json(found, page.limit))


class ModelsView(APIView):
    """Our own list of variants and OpenAI's list of models in one. Its errors are in our format."""

    @extend_schema(
        responses=ModelsOut,
        operation_id="models_list",
        summary="The model variants you may choose",
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
    @extend_schema(exclude=True)
    def get(self, request: Request, name: str) -> Response:
        known = model_objects(settings.MODEL_VARIANTS, settings.OPENAI_MODEL_ALIASES, STARTED)
        if not any(one["id"] == name for one in known):
            raise ModelNotFound(name)
        return Response(model_object(name, STARTED))


def _message_json(row: Message) -> dict[str, Any]:
    """Return a stored message in the format of Chat Completions, where a reply contains its calls."""
    if row.role == Role.TOOL:
        return {
            "role": "tool",
            "content": row.content,
            "tool_call_id": (row.payload or {}).get("call_id", ""),
        }
    if calls := calls_of(row):
        return {
            "role": row.role,
            "content": row.content or None,
            "tool_calls": [chat_call(call) for call in calls],
        }
    return {"role": row.role, "content": row.content}


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


def _completion(request: Request, name: str) -> ChatCompletion:
    """Return the caller's completion of that id. Raises `NotFound`, also while its reply is being written."""
    message_id = message_id_of(name)
    found = message_id and ChatCompletion.objects.filter(user=caller(request), message_id=message_id).first()
    if not found or not Message.objects.filter(pk=found.message_id).exists():
        raise NotFound(f"ChatCompletion with id '{name[:64]}' not found.")
    return found


def _one(completion: ChatCompletion) -> dict[str, Any]:
    return _shown([completion])[0]


def _shown(completions: list[ChatCompletion]) -> list[dict[str, Any]]:
    """Return completions as they are listed, without those whose reply is still being written."""
    messages = Message.objects.in_bulk([one.message_id for one in completions])
    return [
        stored_completion(
            one, message, outline_of(message.pk).get("tokens", 0), calls_of(message), tools_of(message)
        )
        for one in completions
        if (message := messages.get(one.message_id)) is not None
    ]


def _wanted(query: Mapping[str, str | list[object]]) -> dict[str, str]:
    """Return the metadata that a query filters by, given as `metadata[key]=value`."""
    found = ((_METADATA.fullmatch(name), str(value)) for name, value in query.items())
    return {match[1].replace("\0", ""): value.replace("\0", "") for match, value in found if match}


def _place(after: str, prefix: str) -> int:
    seq = after.removeprefix(f"{prefix}-")
    if not seq.isascii() or not seq.isdigit():
        raise NotFound(f"Message with id '{after[:64]}' not found.")
    return int(seq[:9])
