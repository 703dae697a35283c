"""Whose objects a request names, and who makes it: callers who do not own them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx
from django.contrib.auth.models import User
from django.core import serializers
from django.core.management import call_command
from django.db import transaction
from django.utils import timezone
from knox.models import AuthToken

from chatmemory.database.ids import new_id
from chatmemory.llm.attachments import file_of
from conversations import attachments
from conversations.accounts import api_tokens, end_users
from conversations.accounts.models import App, Scope
from conversations.models import ActiveReply, Chat, ChatCompletion, IdempotencyKey, Message
from conversations.replies import begin
from conversations.replies.reply import BegunTurn, TurnRequest
from memory.models import ContextRecord, ConversationBrief, Pin, SummaryRevision
from memory.pins import pins
from tests.admin.rows import make_chat
from tests.security.access.operations import Filled
from tests.support.exhaustive import first_row_of
from tests.support.live_server import Client

CANARY = "the heron in the reeds"
PICTURE = file_of(CANARY.encode(), "text/plain", CANARY)
KEY, BUSY_KEY = "alice-1", "alice-2"
APP, OTHER_APP, END_USER = "shop", "bank", "anna"
Ids = Mapping[str, Any]


@dataclass
class OwnedObjects:
    """A user's objects: a chat with memory, and one in which a reply is being written."""

    owner: str
    idle: Ids
    question: Ids
    busy: Ids

    @property
    def all(self) -> list[Ids]:
        return [self.idle, self.question, self.busy]


def create_owned_objects(user: User, client: Client, settings: Any) -> OwnedObjects:
    settings.REPLY_LEASE_SECONDS = 600  # the busy chat's lease is not renewed, and must not expire
    settings.MEMORY_EMBEDDINGS_MODEL = "arco"
    settings.REPLY_CHECKPOINT_SECONDS = 0.05
    idle = make_chat(user, title=CANARY, said=CANARY)
    call_command("resummarize", str(idle.pk), sync=True)
    asked = client.ask(CANARY, str(idle.pk))
    reply, question = asked["message"]["id"], asked["user_message_id"]
    other_token = AuthToken.objects.create(user)[0]
    pin, _ = pins.pin(user, idle.pk, text=CANARY)
    mine = {
        "chat_id": str(idle.pk),
        "version": 1,
        "token_id": api_tokens.id_of(other_token),
        "pin_id": str(pin.pk),
        "sha256": PICTURE.sha256,
        "end_user": END_USER,
        "response_id": f"resp_{UUID(reply).hex}",
    }
    IdempotencyKey.objects.create(
        user=user,
        key=KEY,
        request_hash="0" * 64,
        chat=idle,
        user_message_id=question,
        message_id=reply,
        created_at=timezone.now(),
    )
    busy = make_chat(user, title=CANARY, said=CANARY)
    request = TurnRequest(message=CANARY, variant=begin.default_variant())
    begun = begin.begin_turn(user, request, chat_id=busy.pk, key=BUSY_KEY)
    assert isinstance(begun, BegunTurn)
    for chat, message_id in ((idle, UUID(reply)), (busy, begun.pending.message_id)):
        ChatCompletion.objects.create(
            message_id=message_id,
            chat=chat,
            user=user,
            seq=1,
            asked=b"",
            question=b"",
            request=b"",
            model="arco",
            decision="new",
            response={},
        )
    first = Message.objects.filter(chat__in=[idle, busy], seq=1)
    with transaction.atomic():
        attachments.store(user.pk, [(message, [PICTURE]) for message in first])
    return OwnedObjects(
        user.username,
        {**mine, "message_id": reply, "Idempotency-Key": KEY},
        {**mine, "message_id": question, "Idempotency-Key": KEY},
        {
            **mine,
            "chat_id": str(busy.pk),
            "message_id": str(begun.pending.message_id),
            "response_id": f"resp_{begun.pending.message_id.hex}",
            "Idempotency-Key": BUSY_KEY,
        },
    )


def nowhere() -> Ids:
    """Return ids of objects that do not exist."""
    return {
        "chat_id": str(new_id()),
        "message_id": str(new_id()),
        "version": 7,
        "token_id": "0" * 16,
        "pin_id": str(new_id()),
        "sha256": "0" * 64,
        "end_user": "nobody",
        "response_id": f"resp_{new_id().hex}",
        "Idempotency-Key": KEY,
    }


@dataclass
class Caller:
    """A caller, as defined by the credentials of their requests."""

    http: httpx.Client = field(repr=False)
    user: User | None = None

    def send(self, filled: Filled) -> httpx.Response:
        return self.http.request(filled.method, filled.path, **filled.options())


CSRF = "0123456789abcdef0123456789abcdef"


def with_token(calling: Callable[..., Caller], user: User) -> Caller:
    caller = calling(token=AuthToken.objects.create(user)[1])
    caller.user = user
    return caller


def member(name: str, **fields: Any) -> User:
    return User.objects.create(username=name, **fields)


UNKNOWN: dict[str, Callable[[Callable[..., Caller]], Caller]] = {
    "nobody": lambda calling: calling(),
    "made-up token": lambda calling: calling(token="0" * 64),
}
BOSS = {"is_staff": True, "is_superuser": True}
STRANGERS: dict[str, Callable[[Callable[..., Caller]], Caller]] = {
    "another user": lambda calling: with_token(calling, member("mallory")),
    "superuser, token": lambda calling: with_token(calling, member("boss", **BOSS)),
    "superuser, session": lambda calling: calling(session=member("boss", **BOSS)),
}


def of_app(name: str, end_user: str = "", *scopes: str) -> Callable[[Callable[..., Caller]], Caller]:
    """Return what makes a caller with a token of an app, made if there is none, who names an end user."""

    def make_caller(calling: Callable[..., Caller]) -> Caller:
        app = App.objects.filter(user__username=name).first() or end_users.create_app(name, requires_end_user=False)
        issued = api_tokens.issue(app.user, None, "", scopes or [Scope.ACT_FOR_USERS])
        assert issued is not None
        caller = calling(token=issued[1], end_user=end_user)
        caller.user = app.user
        return caller

    return make_caller


READS = (Scope.ACT_FOR_USERS, Scope.READ_ONLY)
BESIDE: dict[str, Callable[[Callable[..., Caller]], Caller]] = {
    "another end user of the app": of_app(APP, "ben"),
    "an end user of that id of another app": of_app(OTHER_APP, END_USER),
    "the app itself": of_app(APP),
    "another app": of_app(OTHER_APP),
    "another end user of another app": of_app(OTHER_APP, "ben"),
}
"""Callers beside the end user `END_USER` of `APP`."""
OTHERS = [
    *first_row_of(("owned_objects", name) for name in STRANGERS),
    *first_row_of(("end_users_house", name) for name in BESIDE),
]
"""Fixtures of a user's objects, each with the callers who do not own them."""
UNSCOPED: dict[str, Callable[[Callable[..., Caller]], Caller]] = {
    "the app without the scope": of_app(APP, END_USER, Scope.CHAT),
    "the app without the scope, read only": of_app(APP, END_USER, Scope.READ_ONLY),
    "a user who is no app": lambda calling: calling(
        token=api_tokens.issue(member("eve"), None, "", [Scope.ACT_FOR_USERS])[1],  # type: ignore[index]
        end_user=END_USER,
    ),
}


def owned_by(name: str) -> str:
    """Return all rows that belong to a user, as text."""
    ways = {
        Chat: "owner",
        Message: "chat__owner",
        ActiveReply: "chat__owner",
        IdempotencyKey: "user",
        ConversationBrief: "chat__owner",
        SummaryRevision: "chat__owner",
        ContextRecord: "reply__chat__owner",
        Pin: "chat__owner",
    }
    found = [model._base_manager.filter(**{f"{way}__username": name}) for model, way in ways.items()]
    return "".join(serializers.serialize("json", rows.order_by("pk")) for rows in found)
