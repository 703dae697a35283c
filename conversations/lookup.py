"""Look up a user's chats and messages. What belongs to somebody else is treated as nonexistent."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.models import User

from chatmemory.database.compiled import Select
from chatmemory.errors import NotFound
from conversations.models import ActiveReply, Chat, Message

_CHAT = Select(lambda chat, owner: Chat.objects.filter(pk=chat, owner=owner), UUID, int)
_LOCKED_CHAT = Select(
    lambda chat, owner: Chat.objects.select_for_update().filter(pk=chat, owner=owner), UUID, int
)
ACTIVE_REPLY = Select(lambda chat: ActiveReply.objects.filter(pk=chat), UUID)


def get_chat(user: User, chat_id: UUID, *, lock: bool = False) -> Chat:
    """Return a chat of `user`. Views get chats only this way: a 404 for all others confirms no chat's existence."""
    chat = (_LOCKED_CHAT if lock else _CHAT).first(chat_id, user.pk)
    if chat is None:
        raise NotFound("Chat not found.")
    return chat


def get_message(chat: Chat, message_id: UUID) -> Message | ActiveReply:
    """Return a message of a chat that the caller may see; one still being written as its `ActiveReply`."""
    found = (
        ActiveReply.objects.filter(chat=chat, message_id=message_id).select_related("user_message").first()
        or Message.objects.filter(chat=chat, pk=message_id).first()
    )
    if found is None:
        raise NotFound("This chat has no such message.")
    return found
