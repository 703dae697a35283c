"""Views of chats and messages. Views that create replies are in `conversations.api.replies`."""

from functools import partial
from typing import Any
from uuid import UUID

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chatmemory.api.async_view import AsyncView
from chatmemory.api.http import PAGING, CursorPages, caller, example, validated
from chatmemory.errors import NotFound
from chatmemory.llm.attachments import IMAGE_TYPES
from conversations import attachments, chat_lifecycle, message_changes
from conversations.api.serializers import ChatIn, ChatOut, ChatsPageOut, EditIn, MessageOut, NewChatIn
from conversations.models import (
    MEMORY_COLUMNS,
    ActiveReply,
    Chat,
    Message,
    StoredAttachment,
    get_chat,
    get_message,
)
from conversations.replies.stream import ReaderSlot, streamed, take_slot

chats_operation = partial(extend_schema, tags=["chats"])
messages_operation = partial(extend_schema, tags=["messages"])


class ChatsView(APIView):
    @chats_operation(
        parameters=[
            OpenApiParameter("search", str, description="Words of a title."),
            *PAGING,
        ],
        responses=ChatsPageOut,
        operation_id="chats_list",
        summary="List chats",
        description="Newest first, in pages. `search` looks in titles; `GET /v1/search` looks in messages.",
    )
    def get(self, request: Request) -> Response:
        chats = Chat.objects.filter(owner=caller(request))
        if search := request.query_params.get("search", "").replace("\0", "").strip():
            chats = chats.filter(title__icontains=search)
        return CursorPages("-id", filters={"search"}).answer(chats, request, ChatOut)

    @chats_operation(
        request=NewChatIn,
        responses={201: ChatOut},
        operation_id="chats_create",
        examples=example({"title": "My order", "instructions": "Be brief.", "policy": "chunked"}),
        summary="Create a chat",
        description="All fields are optional. To begin with a message instead, use `POST /v1/message/first`.",
    )
    def post(self, request: Request) -> Response:
        chat = chat_lifecycle.create_chat(caller(request), **validated(NewChatIn, request.data))
        return Response(ChatOut(chat).data, status=201)


class ChatView(APIView):
    @chats_operation(
        responses=ChatOut,
        operation_id="chats_read",
        summary="Get a chat",
        description="Its title, policy, options, instructions and metadata.",
    )
    def get(self, request: Request, chat_id: UUID) -> Response:
        return Response(ChatOut(get_chat(caller(request), chat_id)).data)

    @chats_operation(
        request=ChatIn,
        responses=ChatOut,
        operation_id="chats_update",
        examples=example({"title": "My order AB-1234"}),
        summary="Update a chat",
        description="Only what is sent changes. Another policy, or options that widen what is kept in "
        "full, rebuild memory in the background; until then the present memory is used.",
    )
    def patch(self, request: Request, chat_id: UUID) -> Response:
        chat = get_chat(caller(request), chat_id)
        body = ChatIn(chat, data=request.data)
        body.is_valid(raise_exception=True)
        return Response(ChatOut(chat_lifecycle.update_chat(chat, body.validated_data)).data)

    @chats_operation(
        request=None,
        responses={204: None},
        operation_id="chats_delete",
        summary="Delete a chat",
        description="Deletes the chat, its messages, its memory and everything derived from them. This "
        "cannot be undone.",
    )
    def delete(self, request: Request, chat_id: UUID) -> Response:
        chat_lifecycle.delete_chat(get_chat(caller(request), chat_id))
        return Response(status=204)


class AttachmentView(AsyncView):
    """Streams the bytes as they are read. Whoever reads one counts as a reader, as of a reply."""

    @messages_operation(
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
        operation_id="attachments_read",
        summary="The bytes of an image or a file that came with a message",
        description="As the client sent it. Bytes are kept for some time only; then this is 404.",
    )
    def get(self, request: Request, chat_id: UUID, sha256: str) -> tuple[StoredAttachment, ReaderSlot]:
        user = caller(request)
        found = attachments.find(get_chat(user, chat_id), sha256)
        if found is None:
            raise NotFound("This chat has no such image or file, or its bytes are not kept any more.")
        return found, take_slot(user.pk)

    async def answer(self, opened: Any) -> HttpResponseBase:
        found, slot = opened
        # Only images keep their media type, since browsers do not run them, and nothing is displayed inline.
        kind = found.media_type if found.media_type in IMAGE_TYPES else "application/octet-stream"
        headers = {
            "Content-Disposition": "attachment",
            # Nothing is shown from a cache after it was deleted, or to whoever is no longer signed in.
            "Cache-Control": "no-store",
            "Content-Length": str(found.size),
        }
        return streamed(aiter(attachments.StoredBytes(found.pk, found.size)), slot, kind, headers)


def messages_page(request: Request, chat: Chat) -> Response:
    """Return a page of all messages of `chat`, summarized or not; after the newest, the reply being written."""
    order = request.query_params.get("order", "asc")
    if order not in ("asc", "desc"):
        raise ValidationError({"order": ["This must be asc or desc."]})
    pages = CursorPages("seq" if order == "asc" else "-seq", filters={"order"})
    # Read in this order, so that a reply that becomes final in between is found twice rather than not at all.
    active = ActiveReply.objects.filter(chat=chat).select_related("chat").first()
    page: list[Any] = pages.paginate_queryset(
        Message.objects.filter(chat=chat).defer(*MEMORY_COLUMNS), request
    )
    if active is not None and all(message.pk != active.message_id for message in page):
        if order == "asc" and not pages.get_next_link():
            page.append(active)
        elif order == "desc" and not pages.get_previous_link():
            page.insert(0, active)
    return pages.get_paginated_response(MessageOut(page, many=True).data)


class MessageView(APIView):
    @messages_operation(
        responses=MessageOut,
        operation_id="messages_read",
        summary="Get a message",
        description="A reply that is being written has the status `streaming`, and what is written so far.",
    )
    def get(self, request: Request, chat_id: UUID, message_id: UUID) -> Response:
        chat = get_chat(caller(request), chat_id)
        return Response(MessageOut(get_message(chat, message_id)).data)

    @messages_operation(
        request=EditIn,
        responses=MessageOut,
        operation_id="messages_update",
        examples=example({"content": "Where is my order AB-1243?"}),
        summary="Edit a message",
        description="Memory based on the old text is removed immediately and rebuilt in the background.",
    )
    def patch(self, request: Request, chat_id: UUID, message_id: UUID) -> Response:
        chat = get_chat(caller(request), chat_id)
        content = validated(EditIn, request.data).get("content")
        if content is None:
            return Response(MessageOut(get_message(chat, message_id)).data)
        return Response(MessageOut(message_changes.edit_message(chat, message_id, content)).data)

    @messages_operation(
        request=None,
        responses={204: None},
        operation_id="messages_delete",
        summary="Delete a message, from memory too",
        description="An empty message with status `deleted` stays in its place. Replies that quote it are kept.",
    )
    def delete(self, request: Request, chat_id: UUID, message_id: UUID) -> Response:
        chat = get_chat(caller(request), chat_id)
        message_changes.forget_message(chat.pk, message_id)
        return Response(status=204)
