"""Show what is remembered of a person in all their chats; show and decide what these share with each other."""

from typing import Any

from django.contrib.auth.models import User
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce, Left
from drf_spectacular.utils import extend_schema
from knox.models import AuthToken
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import (
    BooleanField,
    CharField,
    ChoiceField,
    DateTimeField,
    IntegerField,
    Serializer,
    UUIDField,
)
from rest_framework.views import APIView

from chatmemory.api.fields import Choice, Flag, Strict
from chatmemory.api.http import PAGING, CursorPages, PageOut, caller, example, validated
from chatmemory.errors import NotFound
from conversations.accounts.authentication import NO_END_USER, end_user_named
from conversations.api.account import END_USER, account_operation
from conversations.models import Across, Role, Status, messages_at
from memory.across.consent import set_consent, sharing_decision
from memory.api.serializers import PinOut
from memory.models import Consent, Pin, PinScope, ScopedMessage

MAX_QUOTED = 50
"""How many quoted messages are shown."""
QUOTED_CHARS = 300

SHARES = "What their chats share at most: nothing, pins, or also what was said."
LIFTS = "Whether what a message states of the person holds in their other chats at once, without a click."


class SharedIn(Strict):
    across = Choice(Across.choices, help_text=SHARES)
    lifts_pins = Flag(default=False, help_text=LIFTS)


class SharedOut(Serializer[Any]):
    across = ChoiceField(Across.choices, help_text=SHARES)
    decided_by = ChoiceField(["person", "app", "server"], help_text="Who decided that; the server by its settings.")
    given_at = DateTimeField(allow_null=True, help_text="When; null as long as it is a default of the app or server.")
    lifts_pins = BooleanField(help_text=LIFTS)


class _OfChat(Serializer[Any]):
    chat_id = UUIDField(help_text="The chat that it is from.")
    chat_title = CharField(help_text="The title of that chat.")
    said_at = DateTimeField(help_text="When it was said.")
    used = IntegerField(help_text="The number of replies whose prompt had it; counted each minute.")


class LineOut(_OfChat, PinOut):
    project = CharField(help_text="The project of its chat; empty: none.")


class QuotedOut(_OfChat):
    message_id = UUIDField(source="pk", help_text="The message.")
    role = ChoiceField([Role.USER, Role.ASSISTANT], help_text="Who said it.")
    text = CharField(help_text=f"What it says, at most {QUOTED_CHARS} characters.")
    muted = BooleanField(help_text="Whether no prompt has it until it is unmuted.")


class RememberedOut(SharedOut, PageOut):
    results = LineOut(many=True, help_text="Pins that hold in several chats, newest first.")
    quoted = QuotedOut(
        many=True, help_text=f"Messages that prompts of other chats have quoted, the newest {MAX_QUOTED}; on each page."
    )


class MyMemoryView(APIView):
    @account_operation(parameters=PAGING, responses=RememberedOut, operation_id="me_memory_read")
    def get(self, request: Request) -> Response:
        """What is remembered about you across chats. Each line with its message: correct, mute or remove it there, by
        the calls for pins and messages of its chat. And what your chats share, and who decided that.
        """
        return _remembered(request, caller(request))

    @account_operation(
        request=SharedIn,
        responses=SharedOut,
        operation_id="me_memory_update",
        examples=example({"across": "pins", "lifts_pins": False}),
    )
    def put(self, request: Request) -> Response:
        """Decide what your chats share. It comes before what your app and the server have decided; a chat can share
        less. Who decided that, and when, is kept.
        """
        if not caller(request).pk:
            raise NotFound(NO_END_USER)
        return _decided(request, caller(request))


class EndUserMemoryView(APIView):
    @extend_schema(
        parameters=[END_USER, *PAGING], responses=RememberedOut, operation_id="users_memory_read", tags=["account"]
    )
    def get(self, request: Request, end_user: str) -> Response:
        """What is remembered about an end user of your app across chats. As `GET /v1/me/memory`."""
        return _remembered(request, end_user_named(request, end_user))

    @extend_schema(
        parameters=[END_USER],
        request=SharedIn,
        responses=SharedOut,
        operation_id="users_memory_update",
        examples=example({"across": "all", "lifts_pins": True}),
        tags=["account"],
    )
    def put(self, request: Request, end_user: str) -> Response:
        """Decide what the chats of an end user of your app share. As `PUT /v1/me/memory`, but decided by the app."""
        return _decided(request, end_user_named(request, end_user))


def _decided(request: Request, person: User) -> Response:
    set_consent(person, caller(request), **validated(SharedIn, request.data))
    return Response(SharedOut(shared_by(request, person)).data)


def shared_by(request: Request, person: User) -> dict[str, Any]:
    """What the chats of a person share: as decided for them, else by their app, else by the server."""
    consent = Consent.objects.filter(user=person).first()
    app = getattr(request.auth.user if isinstance(request.auth, AuthToken) else person, "app", None)
    across, by = sharing_decision(consent, app)
    given = {"given_at": consent.given_at, "lifts_pins": consent.lifts_pins} if consent else {}
    return {"across": across, "decided_by": by, "given_at": None, "lifts_pins": False, **given}


def _remembered(request: Request, person: User) -> Response:
    pages = CursorPages("-created_at", "-id")
    lines = LineOut(pages.rows_of_page(remembered_lines(person), request), many=True).data
    answer = pages.get_paginated_response(lines)
    shared, quoted = SharedOut(shared_by(request, person)).data, QuotedOut(quoted_elsewhere(person.pk), many=True).data
    answer.data = {**shared, **answer.data, "quoted": quoted}
    return answer


def remembered_lines(person: User) -> QuerySet[Any]:
    """The pins that hold in several chats of a person, each with its chat's title and project, and when it was said."""
    rows = Pin.objects.filter(owner_id=person.pk, ended_at=None, chat__temporary=False).exclude(scope=PinScope.CHAT)
    found: QuerySet[Any] = rows.exclude(
        Q(chat__across=Across.OFF) | Q(scope=PinScope.PROJECT, chat__project="")
    ).annotate(
        chat_title=F("chat__title"),
        project=F("chat__project"),
        said_at=Coalesce("message__created_at", "created_at"),
    )
    return found


def quoted_elsewhere(person_id: int) -> list[Any]:
    """The messages that prompts of other chats have quoted, the newest first, with `text` and how often (`used`)."""
    places = ScopedMessage.objects.filter(owner_id=person_id, used__gt=0).order_by("-pk")
    used = {(chat, seq): count for chat, seq, count in places.values_list("chat_id", "seq", "used")[:MAX_QUOTED]}
    found = (
        messages_at(person_id, used)
        .exclude(status=Status.DELETED)
        .annotate(text=Left("content", QUOTED_CHARS), chat_title=F("chat__title"), said_at=F("created_at"))
    )
    messages: list[Any] = list(found.only("chat_id", "seq", "role", "muted_at", "owner_id").order_by("-pk"))
    for message in messages:
        message.used = used[message.chat_id, message.seq]
    return messages
