"""What clients can read and change of a chat's pins: statements in every prompt until they are removed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiExample, PolymorphicProxySerializer, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chatmemory.api.http import PAGING, CursorPages, Text, caller, no_longer_than, not_blank
from conversations.api.serializers import PageOut, Strict
from conversations.models import get_chat
from memory.models import MAX_CHARS, MAX_PINS, Pin, PinKind, PinnedBy
from memory.pins.pins import pin, unpin

checked_pin = no_longer_than(lambda: MAX_CHARS)


class PinTextIn(Strict):
    text = Text(
        trim_whitespace=False,
        validators=[not_blank, checked_pin],
        help_text=f"What is to be in every prompt, at most {MAX_CHARS:,} characters.",
    )


class PinMessageIn(Strict):
    message_id = serializers.UUIDField(
        help_text=f"A message of this chat to pin; of a long one the first {MAX_CHARS:,} characters."
    )


PIN_IN = PolymorphicProxySerializer("PinIn", [PinTextIn, PinMessageIn], None)
"""One of the two."""


def validate_pin(data: Any) -> dict[str, Any]:
    """Validate what to pin: `text` or `message_id`. Raises `ValidationError`."""
    if isinstance(data, dict) and {"text", "message_id"} <= set(data):
        wanted = ["Give either text or message_id, not both."]
        raise serializers.ValidationError({"text": wanted, "message_id": wanted})
    if isinstance(data, dict) and not data:
        raise serializers.ValidationError({"text": ["Give a text, or the message_id of a message to pin."]})
    body = (PinMessageIn if isinstance(data, dict) and "message_id" in data else PinTextIn)(data=data)
    body.is_valid(raise_exception=True)
    return dict(body.validated_data)


class PinOut(serializers.Serializer[Any]):
    id = serializers.UUIDField(help_text="Its id.")
    text = serializers.CharField(help_text="The text.")
    message_id = serializers.UUIDField(
        allow_null=True, help_text="The message that it was found in, or that was pinned."
    )
    kind = serializers.ChoiceField(
        PinKind.choices,
        help_text="What it says: an instruction, a preference, who somebody is, or something else.",
    )
    by = serializers.ChoiceField(PinnedBy.choices, help_text="Who pinned it.")
    created_at = serializers.DateTimeField(help_text="Creation time.")


class PinsPageOut(PageOut):
    results = PinOut(many=True, help_text="Items on this page.")


class PinPages(CursorPages):
    page_size = 50
    ordering = ("-seq", "-start", "-id")


class PinsView(APIView):
    @extend_schema(
        parameters=PAGING,
        responses=PinsPageOut,
        operation_id="pins_list",
        summary="List pins",
        description="Pins are in every prompt of the chat until they are removed.",
        tags=["memory"],
    )
    def get(self, request: Request, chat_id: UUID) -> Response:
        chat = get_chat(caller(request), chat_id)
        pages = PinPages()
        page = pages.paginate_queryset(
            Pin.objects.filter(chat=chat, ended_at__isnull=True), request, view=self
        )
        return pages.get_paginated_response(PinOut(page, many=True).data)

    @extend_schema(
        request=PIN_IN,
        responses={201: PinOut, 200: PinOut},
        operation_id="pins_create",
        summary="Pin a text or a message",
        description=f"A chat has at most {MAX_PINS} pins. What is already pinned is returned with 200.",
        tags=["memory"],
        examples=[OpenApiExample("A text", value={"text": "Answer in metric units."}, request_only=True)],
    )
    def post(self, request: Request, chat_id: UUID) -> Response:
        user = caller(request)
        get_chat(user, chat_id)
        made, is_new = pin(user, chat_id, **validate_pin(request.data))
        return Response(PinOut(made).data, status=201 if is_new else 200)


class PinView(APIView):
    @extend_schema(
        request=None,
        responses={204: None},
        operation_id="pins_delete",
        summary="Remove a pin",
        description="From the next prompt on. The message it came from is not changed.",
        tags=["memory"],
    )
    def delete(self, request: Request, chat_id: UUID, pin_id: UUID) -> Response:
        unpin(get_chat(caller(request), chat_id), pin_id)
        return Response(status=204)
