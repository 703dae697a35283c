"""Views of chats and messages. Views that create replies are in `conversations.api.replies`."""

import time
from functools import partial
from typing import Any, Never
from uuid import UUID

from django.contrib.auth.models import User
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from chatmemory.api.async_view import AsyncView
from chatmemory.api.http import PAGING, CursorPages, caller, example, refuse_unknown, validated
from chatmemory.errors import Conflict, InvalidRequest, NotFound
from chatmemory.llm.attachments import IMAGE_TYPES
from chatmemory.text.turn_line import plain_title
from conversations import attachments, chat_filters, chat_lifecycle, message_changes
from conversations.accounts.authentication import end_user_named
from conversations.api import receipts, serializers
from conversations.models import MEMORY_COLUMNS, ActiveReply, Chat, Message, get_chat, get_message
from conversations.replies.serializers import MessageOut
from conversations.replies.stream import streamed, take_slot

chats_operation = partial(extend_schema, tags=["chats"])
messages_operation = partial(extend_schema, tags=["messages"])


MEMBER = "metadata."
"""The prefix of a query parameter that names a key of metadata. The rest is the key itself."""
MAX_MEMBERS = 16
"""Maximum number of them in one request; SQLite joins at most 64 tables."""
DELETION_SECONDS = 5.0
"""How long a request deletes chats."""
FILTERS: list[OpenApiParameter | type[serializers.Period]] = [
    OpenApiParameter("user", str, description="An end user of your app, by your id."),
    OpenApiParameter("search", str, description="Words of a title."),
    serializers.Period,
    OpenApiParameter("project", str, description="Only chats of this project; empty: chats of none."),
    OpenApiParameter(
        f"{MEMBER}key",
        str,
        description="The value of `key` at the top level of the chat's `metadata`, whatever your key is: a string as "
        f"it is, numbers, booleans and null as JSON. Up to {MAX_MEMBERS} of them, and all must match.",
    ),
]
"""The query parameters that say which chats."""


def _owner(request: Request) -> User:
    """The end user whom `user` names; without it the caller. Raises DRF's `PermissionDenied`, and `NotFound`."""
    named = request.query_params.get("user")
    return caller(request) if named is None else end_user_named(request, named)


def _filter(request: Request) -> tuple[dict[str, Any], set[str]]:
    """Which chats are wanted, and the query parameters that may say so. Raises `ValidationError`."""
    query = request.query_params
    names = [name for name in query if name.startswith(MEMBER)]
    members = [(name.removeprefix(MEMBER), value) for name in names for value in query.getlist(name)]
    if len(members) > MAX_MEMBERS:
        raise ValidationError({names[-1]: [f"At most {MAX_MEMBERS} filters by metadata are possible."]})
    wanted = validated(serializers.Period, query.dict())
    if title := query.get("search", "").replace("\0", "").strip():
        wanted["title"] = title
    if members:
        wanted["members"] = members
    if "project" in query:
        wanted["project"] = plain_title(query["project"])
    known = {"user", "search", "since", "until", "project", f"{MEMBER}key", *names}
    return wanted, known


class ChatViews(ViewSet):
    @chats_operation(parameters=[*FILTERS, *PAGING], responses=serializers.ChatsPageOut, operation_id="chats_list")
    def page(self, request: Request) -> Response:
        """List chats. Newest first, in pages; only chats that match all filters. `since` and `until` are about the last
        message. `search` looks in titles; `POST /v1/search` looks in messages. Temporary chats are not listed.
        """
        wanted, names = _filter(request)
        chats = chat_filters.chats_of(_owner(request), **wanted)
        return CursorPages("-place", filters=names).respond(chats, request, serializers.ChatOut)

    @chats_operation(
        parameters=[*FILTERS, serializers.ChatsDeleteQuery],
        request=None,
        responses={200: serializers.ChatsDeletedOut},
        operation_id="chats_delete_many",
        summary="Delete many chats",
        description="Deletes the chats that match all filters; at least one filter is required. Without `confirm`, "
        "nothing is deleted: the response says how many there are. With that number as `confirm` they are deleted, "
        f"unless it has changed. A request deletes for about {DELETION_SECONDS:.0f} seconds; repeat it while some are "
        "`left`.",
    )
    def remove_many(self, request: Request) -> Response:
        wanted, names = _filter(request)
        refuse_unknown(request, {*names, "confirm"})
        confirmed = validated(serializers.ChatsDeleteQuery, request.query_params.dict()).get("confirm")
        if not wanted and "user" not in request.query_params:
            raise InvalidRequest("Say which chats: at least one filter is required.")
        chats = chat_filters.chats_of(_owner(request), **wanted)
        if confirmed is None:
            count = chats.count()
            return Response({"count": count, "deleted": 0, "left": count})
        keys = list(chats.values_list("pk", "owner_id"))
        if len(keys) != confirmed:
            now = f"The filters find {len(keys)} chats now, not {confirmed}."
            raise Conflict("Nothing was deleted: the count has changed.", details={"confirm": [now]})
        deleted = chat_lifecycle.delete_chats(chats, keys, time.monotonic() + DELETION_SECONDS)
        return Response({"count": len(keys), "deleted": deleted, "left": len(keys) - deleted})

    @chats_operation(
        request=serializers.NewChatIn,
        responses={201: serializers.ChatOut},
        operation_id="chats_create",
        examples=example({"title": "My order", "instructions": "Be brief.", "policy": "chunked"}),
    )
    def create(self, request: Request) -> Response:
        """Create a chat. All fields are optional. To begin with a message instead, use `POST /v1/message/first`."""
        chat = chat_lifecycle.create_chat(caller(request), **validated(serializers.NewChatIn, request.data))
        return Response(serializers.ChatOut(chat).data, status=201)

    @chats_operation(responses=serializers.ChatOut, operation_id="chats_read")
    def read(self, request: Request, chat_id: UUID) -> Response:
        """Get a chat. Its title, policy, options, instructions and metadata."""
        return Response(serializers.ChatOut(get_chat(caller(request), chat_id)).data)

    @chats_operation(
        request=serializers.ChatIn,
        responses=serializers.ChatOut,
        operation_id="chats_update",
        examples=example({"title": "My order AB-1234"}),
    )
    def change(self, request: Request, chat_id: UUID) -> Response:
        """Update a chat. Only what is sent changes. Another policy, or options that widen what is kept in full, rebuild
        memory in the background; until then the present memory is used.
        """
        chat = get_chat(caller(request), chat_id)
        body = serializers.ChatIn(chat, data=request.data)
        body.is_valid(raise_exception=True)
        return Response(serializers.ChatOut(chat_lifecycle.update_chat(chat, body.validated_data)).data)

    @chats_operation(parameters=receipts.PREFER, request=None, responses=receipts.DELETED, operation_id="chats_delete")
    def remove(self, request: Request, chat_id: UUID) -> Response:
        """Delete a chat. Deletes the chat, its messages, its memory and everything derived from them. This cannot be
        undone.
        """
        chat = get_chat(caller(request), chat_id)
        return receipts.delete(request, chat, lambda: chat_lifecycle.delete_chat(chat))

    @chats_operation(responses=receipts.DeletionOut, operation_id="chats_deletion")
    def count(self, request: Request, chat_id: UUID) -> Response:
        """Count what the deletion of a chat would take with it. Nothing is deleted."""
        return Response(receipts.deletion_counts(get_chat(caller(request), chat_id)))


class AttachmentView(AsyncView[Never]):
    """Streams the bytes as they are read. Its client counts as a reader, like that of a reply."""

    @messages_operation(
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY}, operation_id="attachments_read"
    )
    def get(self, request: Request, chat_id: UUID, sha256: str) -> StreamingHttpResponse:
        """The bytes of an image or a file that came with a message. As the client sent it. Bytes are kept for some time
        only; then this is 404.
        """
        user = caller(request)
        found = attachments.find(get_chat(user, chat_id), sha256)
        if found is None:
            raise NotFound("This chat has no such image or file, or its bytes are not kept any more.")
        # Only images keep their media type, since browsers do not run them, and nothing is displayed inline.
        kind = found.media_type if found.media_type in IMAGE_TYPES else "application/octet-stream"
        headers = {
            "Content-Disposition": "attachment",
            # No cache shows it after its deletion, or after its owner has signed out.
            "Cache-Control": "no-store",
            "Content-Length": str(found.size),
        }
        pieces = aiter(attachments.stored_bytes(found.user_id, found.pk, found.size))
        return streamed(pieces, take_slot(user.pk), kind, headers)


def messages_page(request: Request, chat: Chat) -> Response:
    """Return a page of all messages of `chat`, summarized or not; after the newest, the reply being written."""
    order = request.query_params.get("order", "asc")
    if order not in ("asc", "desc"):
        raise ValidationError({"order": ["This must be asc or desc."]})
    pages = CursorPages("seq" if order == "asc" else "-seq", filters={"order"})
    # Read in this order, so that a reply that becomes final in between is found twice rather than not at all.
    active = ActiveReply.objects.filter(chat=chat).select_related("chat").first()
    rows = Message.objects.filter(chat=chat).defer(*MEMORY_COLUMNS)
    page: list[Message | ActiveReply] = [*pages.rows_of_page(rows, request)]
    if active is not None and all(one.pk != active.message_id for one in page):
        if order == "asc" and not pages.get_next_link():
            page.append(active)
        elif order == "desc" and not pages.get_previous_link():
            page.insert(0, active)
    return pages.get_paginated_response(MessageOut(page, many=True).data)


class MessageViews(ViewSet):
    @messages_operation(responses=MessageOut, operation_id="messages_read")
    def read(self, request: Request, chat_id: UUID, message_id: UUID) -> Response:
        """Get a message. A reply that is being written has the status `streaming`, and what is written so far."""
        chat = get_chat(caller(request), chat_id)
        return Response(MessageOut(get_message(chat, message_id)).data)

    @messages_operation(
        request=serializers.EditIn,
        responses=MessageOut,
        operation_id="messages_update",
        examples=example({"content": "Where is my order AB-1243?"}),
    )
    def change(self, request: Request, chat_id: UUID, message_id: UUID) -> Response:
        """Edit or mute a message. Memory based on the old text is removed immediately and rebuilt in the background.
        A muted message stays where it is, and is no longer recalled.
        """
        chat = get_chat(caller(request), chat_id)
        fields = validated(serializers.EditIn, request.data)
        message = get_message(chat, message_id)
        if "content" in fields:
            message = message_changes.edit_message(chat, message_id, fields["content"])
        if "muted" in fields:
            message = message_changes.mute_message(chat, message_id, muted=fields["muted"])
        return Response(MessageOut(message).data)

    @messages_operation(
        parameters=receipts.PREFER, request=None, responses=receipts.DELETED, operation_id="messages_delete"
    )
    def remove(self, request: Request, chat_id: UUID, message_id: UUID) -> Response:
        """Delete a message, from memory too. An empty message with status `deleted` stays in its place. Replies that
        quote it are kept.
        """
        chat = get_chat(caller(request), chat_id)
        message = get_message(chat, message_id)
        return receipts.delete(request, message, lambda: message_changes.forget_message(chat.key, message_id))

    @messages_operation(responses=receipts.DeletionOut, operation_id="messages_deletion")
    def count(self, request: Request, chat_id: UUID, message_id: UUID) -> Response:
        """Count what the deletion of a message would take with it. Nothing is deleted."""
        return Response(receipts.deletion_counts(get_message(get_chat(caller(request), chat_id), message_id)))
