"""Everything stored about a user, as the text of one JSON object, which `import_chat` can read as well.

It is written in pieces, each read as of one moment and complete before it is sent: so each chat is consistent,
however slowly its owner reads, and no other request waits for it. Secrets are left out: tokens and the password's
hash.
"""

from collections.abc import AsyncIterator, Iterator
from tempfile import SpooledTemporaryFile
from typing import Any
from uuid import UUID

from allauth.idp.oidc.models import Token as AgentToken
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import User
from django.db.models import F, QuerySet
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from knox.models import AuthToken
from rest_framework.request import Request

from chatmemory.api.async_view import AsyncView
from chatmemory.api.http import caller
from chatmemory.database import executors
from chatmemory.database.rows import in_chunks
from chatmemory.errors import NotFound
from conversations.accounts import quotas
from conversations.accounts.authentication import NO_END_USER, end_user_named
from conversations.accounts.models import Allowance, EndUser, Window
from conversations.api.account import END_USER
from conversations.interchange.rows import chat_fields, message_fields
from conversations.interchange.values import fields_text, json_text, list_text
from conversations.models import Chat, ChatCompletion, ContentView, IdempotencyKey, NamedConversation
from conversations.replies.generation import is_draining, refuse_when_draining
from memory.api.serializers import RevisionOut
from memory.models import Consent, ContextRecord, ContextText, ConversationBrief, SummaryRevision
from memory.usage import daily

FORMAT = "chatmemory-account/1"

_ACCOUNT = "id username email first_name last_name is_staff is_superuser date_joined last_login".split()
_LIMITS = "requests_per_minute tokens_per_day streams readers resummarize_per_hour day day_tokens".split()
_TOKEN = "created expiry name scopes".split()
_LOOK = "at page object_id count chat_id".split()
_KEY = "key chat_id user_message_id message_id created_at".split()
_COMPLETION = "message_id chat_id model api decision found_by response created_at".split()
_BRIEF = (
    "policy options global_summary state version head folded_through_seq token_count degraded "
    "last_error paused_at updated_at"
).split()
_REVISION = ["policy", *RevisionOut().fields]
_CONTEXT = (
    "revision policy sections tokens budget unrepresented clipped dropped card instructions_hash "
    "turn_instructions_hash sources_hash prompt_hash"
).split()


Pieces = Iterator[str]


def _account(user_id: int) -> Pieces:
    """The beginning of the object: everything about the user except their chats, up to the list of those."""
    user = User.objects.filter(pk=user_id).first()
    if user is None:
        return
    windows = Window.objects.filter(owner_id=user_id, key=str(user_id)).order_by("kind")
    consent = Consent.objects.filter(user=user_id).annotate(by=F("given_by__username"))
    fields = {
        "format": FORMAT,
        "account": {name: getattr(user, name) for name in _ACCOUNT},
        "external_id": EndUser.objects.filter(pk=user_id).values_list("external_id", flat=True).first(),
        "limits": Allowance.objects.filter(pk=user_id).values(*_LIMITS).first(),
        "usage": daily.days_of(user),
        "consent": consent.values("across", "lifts_pins", "by", "given_at").first(),
        "windows": list(windows.values("kind", "since", "count")),
    }
    yield from fields_text(fields)
    granted = {"name": F("grant__name"), "scopes": F("grant__scopes")}
    tokens = AuthToken.objects.filter(user=user).annotate(**granted).order_by("created")
    yield from list_text("tokens", _rows(tokens, _TOKEN))
    agents = AgentToken.objects.filter(user=user).order_by("created_at")
    yield from list_text("agents", _rows(agents, ["client_id", "type", "scopes", "created_at", "expires_at"]))
    identities = SocialAccount.objects.filter(user=user)
    yield from list_text("identities", _rows(identities, ["provider", "uid", "date_joined", "last_login"]))
    factors = Authenticator.objects.filter(user=user)
    yield from list_text("second_factors", _rows(factors, ["type", "created_at", "last_used_at"]))
    yield from list_text("idempotency_keys", _rows(IdempotencyKey.objects.filter(user=user), _KEY))
    named = NamedConversation.objects.filter(user=user)
    yield from list_text("named_conversations", _rows(named, ["name", "chat_id"]))
    yield from list_text("completions", _rows(ChatCompletion.objects.filter(user=user), _COMPLETION))
    yield from list_text("looked_at_by_staff", _rows(ContentView.objects.filter(owner_id=user_id), _LOOK))
    yield ',\n "chats": ['


def _chat(user_id: int, chat_id: UUID) -> Pieces:
    """Everything of a chat and its memory; nothing if it is gone."""
    chat = Chat.objects.filter(pk=chat_id, owner_id=user_id).first()
    if chat is None:
        return
    head = {"id": chat.pk, **chat_fields(chat), "updated_at": chat.updated_at}
    yield "\n"
    yield from fields_text(head)
    yield from list_text("messages", message_fields(chat))
    brief = ConversationBrief.objects.filter(chat=chat).values(*_BRIEF).first()
    yield ',\n "memory": {"brief": '
    yield from json_text(brief)
    revisions = SummaryRevision.objects.filter(chat=chat).order_by("version")
    yield from list_text("revisions", _rows(revisions, _REVISION))
    contexts = ContextRecord.objects.filter(reply__chat=chat).order_by("reply__seq")
    yield from list_text("contexts", _rows(contexts, ["reply__seq", *_CONTEXT]))
    yield from list_text("given", _rows(ContextText.objects.filter(chat=chat), ["sha256", "text"]))
    yield "}}"


def _rows(rows: QuerySet[Any], fields: list[str]) -> Iterator[dict[str, Any]]:
    if not rows.ordered:
        rows = rows.order_by("pk")
    return in_chunks(rows.values(*fields))


PIECE = 64 * 1024
"""Characters written at once."""
IN_MEMORY = 1024 * 1024
"""Bytes of a chat held in memory while its owner reads them; the rest goes to a file that no other process can open."""


EXPORT = {(200, "application/json"): OpenApiResponse(OpenApiTypes.OBJECT, "All of it.")}


def download(user_id: int) -> StreamingHttpResponse:
    """A response with all data of a user, which is read while it is sent."""
    headers = {
        "Cache-Control": "no-store, no-transform",
        "Content-Disposition": 'attachment; filename="chatmemory-export.json"',
    }
    return StreamingHttpResponse(_export(user_id), content_type="application/json", headers=headers)


class ExportView(AsyncView[int]):
    @extend_schema(responses=EXPORT, operation_id="me_export", tags=["account"])
    def get(self, request: Request) -> int:
        """Export all your data. One JSON object, streamed. `manage.py import_chat` reads it."""
        refuse_when_draining()
        if not (user_id := int(caller(request).pk)):
            raise NotFound(NO_END_USER)
        return user_id

    async def respond(self, prepared: int) -> HttpResponseBase:
        await executors.write(quotas.take_now, "exports", prepared, 1)
        return download(prepared)


class EndUserExportView(ExportView):
    @extend_schema(parameters=[END_USER], responses=EXPORT, operation_id="users_export", tags=["account"])
    def get(self, request: Request, end_user: str) -> int:  # type: ignore[override]  # of another path
        """Export all data of an end user of your app. As `GET /v1/me/export`. For tokens with the scope
        `act-for-users`.
        """
        refuse_when_draining()
        return int(end_user_named(request, end_user).pk)


async def _export(user_id: int) -> AsyncIterator[str]:
    """Yield the export as it is read: each part is fetched when the one before it has been sent."""
    async for piece in _sent(_account(user_id)):
        yield piece
    chat_id, before = None, ""
    while (chat_id := await executors.read(_next_chat, user_id, chat_id)) is not None:
        separator = before
        async for piece in _sent(_chat(user_id, chat_id)):  # nothing, if it is gone
            yield separator + piece
            separator, before = "", ","
    if not is_draining():
        yield "\n]}\n"


def _next_chat(user_id: int, after: UUID | None) -> UUID | None:
    """The user's chat that follows `after`; None after the last."""
    chats = Chat.objects.filter(owner=user_id).order_by("pk")
    return (chats.filter(pk__gt=after) if after else chats).values_list("pk", flat=True).first()


async def _sent(part: Pieces) -> AsyncIterator[str]:
    """Yield a part once all of it is read, in pieces; stop when this process shuts down."""

    def read() -> None:
        with executors.snapshot():
            for text in part:
                file.write(text)  # `writelines` keeps everything in memory before it checks the length

    with SpooledTemporaryFile(IN_MEMORY, "w+", encoding="utf-8") as file:
        await executors.slow(read)
        file.seek(0)
        while not is_draining() and (piece := file.read(PIECE)):
            yield piece
