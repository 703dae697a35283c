"""What clients can read and change of a chat's pins: statements in every prompt until they are removed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiExample, PolymorphicProxySerializer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import (
    CharField,
    ChoiceField,
    DateTimeField,
    Serializer,
    UUIDField,
    ValidationError,
)
from rest_framework.viewsets import ViewSet

from chatmemory.api.http import PAGING, CursorPages, Text, caller, no_longer_than, not_blank, validated
from conversations.api.serializers import PageOut, Strict
from conversations.models import get_chat
from memory.api.serializers import memory_operation
from memory.models import MAX_CHARS, MAX_PINS, Pin, PinKind, PinnedBy
from memory.pins import pins


class PinTextIn(Strict):
    text = Text(
        trim_whitespace=False,
        validators=[not_blank, no_longer_than(lambda: MAX_CHARS)],
        help_text=f"What is to be in every prompt, at most {MAX_CHARS:,} characters.",
    )


class PinMessageIn(Strict):
    message_id = UUIDField(
        help_text=f"A message of this chat to pin; of a long one the first {MAX_CHARS:,} characters."
    )


PIN_IN = PolymorphicProxySerializer("PinIn", [PinTextIn, PinMessageIn], None)
"""One of the two."""


def validate_pin(data: Any) -> dict[str, Any]:
    """Validate what to pin: `text` or `message_id`. Raises `ValidationError`."""
    names = set(data) if isinstance(data, dict) else {"text"}
    if {"text", "message_id"} <= names:
        problem = ["Give either text or message_id, not both."]
        raise ValidationError({"text": problem, "message_id": problem})
    if not names:
        raise ValidationError({"text": ["Give a text, or the message_id of a message to pin."]})
    return validated(PinMessageIn if "message_id" in names else PinTextIn, data)


class PinOut(Serializer[Any]):
    id = UUIDField(help_text="Its id.")
    text = CharField(help_text="The text.")
    message_id = UUIDField(allow_null=True, help_text="The message that it was found in, or that was pinned.")
    kind = ChoiceField(
        PinKind.choices,
        help_text="What it says: an instruction, a preference, who somebody is, or something else.",
    )
    by = ChoiceField(PinnedBy.choices, help_text="Who pinned it.")
    created_at = DateTimeField(help_text="Creation time.")


class PinsPageOut(PageOut):
    results = PinOut(many=True, help_text="Items on this page.")


class PinPages(CursorPages):
    page_size = 50
    ordering = ("-seq", "-start", "-id")


class PinViews(ViewSet):
    @memory_operation(
        parameters=PAGING,
        responses=PinsPageOut,
        operation_id="pins_list",
        summary="List pins",
        description="Pins are in every prompt of the chat until they are removed.",
    )
    def page(self, request: Request, chat_id: UUID) -> Response:
        rows = Pin.objects.filter(chat=get_chat(caller(request), chat_id), ended_at__isnull=True)
        pages = PinPages()
        page = pages.paginate_queryset(rows, request, view=self)
        return pages.get_paginated_response(PinOut(page, many=True).data)

    @memory_operation(
        request=PIN_IN,
        responses={201: PinOut, 200: PinOut},
        operation_id="pins_create",
        summary="Pin a text or a message",
        description=f"A chat has at most {MAX_PINS} pins. What is already pinned is returned with 200.",
        examples=[OpenApiExample("A text", value={"text": "Answer in metric units."}, request_only=True)],
    )
    def pin(self, request: Request, chat_id: UUID) -> Response:
        user = caller(request)
        get_chat(user, chat_id)
        pin, is_new = pins.pin(user, chat_id, **validate_pin(request.data))
        return Response(PinOut(pin).data, status=201 if is_new else 200)

    @memory_operation(
        request=None,
        responses={204: None},
        operation_id="pins_delete",
        summary="Remove a pin",
        description="From the next prompt on. The message it came from is not changed.",
    )
    def unpin(self, request: Request, chat_id: UUID, pin_id: UUID) -> Response:
        pins.unpin(get_chat(caller(request), chat_id), pin_id)
        return Response(status=204)
