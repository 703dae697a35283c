"""Edit a message, mute it, or forget it (remove its content). Each is one transaction.

After an edit, or once it is forgotten, no prompt and no row contains the former text: not the message, not the line of
its turn and, by the work of `memory`, not what was summarized from it. What other messages quote of it stays:
forgetting a question keeps its answer. A forgotten message leaves an empty row behind, so that `seq` has no gaps.
"""

import logging
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Left
from django.utils import timezone

from chatmemory.database.owned import ChatKey
from chatmemory.errors import ChatBusy, Conflict, NotFound
from chatmemory.llm.attachments import attachments_in, payload_of, still_marked
from chatmemory.runtime.tracing import memory_span
from chatmemory.text.turn_line import TITLE_FROM_CHARS, automatic_title, title_repeats
from conversations import attachments
from conversations.derived import derived_columns, set_lines
from conversations.models import ActiveReply, Chat, Message, Role, Status, get_message, lock_chat
from conversations.replies import finish, open_turn
from conversations.retention.models import Erased
from memory.changes import message_changed

logger = logging.getLogger(__name__)

_EMPTIED: dict[str, Any] = {
    "content": "",
    "payload": None,
    "token_count": 0,
    "outline": "",
    "terms": "",
    "response_id": "",
    "error": None,
    "metadata": {},
}
"""Fields of a forgotten message that are cleared. Its place, its times and its cost stay."""


def edit_message(chat: Chat, message_id: UUID, content: str, *, revives: bool = False) -> Message:
    """Replace the text of a message; the same text changes nothing.

    Raises `NotFound`; `ChatBusy` for a reply being written and its question; `Conflict` for a deleted message and for a
    tool call, and for a failed reply, unless it `revives` that: another server answered in its place.
    """
    # Computed before the lock, because it takes time.
    role = Message.objects.filter(chat=chat, pk=message_id).values_list("role", flat=True).first()
    changes = {"content": content, **derived_columns(content, role or "", chat.owner_id)}
    with transaction.atomic():
        message = _locked(chat.key, message_id)
        if message.status == Status.FAILED and revives:
            changes |= {"status": Status.COMPLETE, "error": None}
        elif message.status in (Status.DELETED, Status.FAILED):
            raise Conflict("There is nothing to edit: this message was deleted or has no text.")
        if message.role == Role.TOOL_CALL:
            raise Conflict("A tool call cannot be edited, only deleted.")
        if message.content != content:
            if came_with := attachments_in(message.payload):
                stay = still_marked(came_with, content)
                attachments.release(message, stay)
                changes["payload"] = payload_of(stay)
            _change(message, **changes)
    return message


def mute_message(chat: Chat, message_id: UUID, *, muted: bool) -> Message:
    """Have recall quote a message no more, or again. Raises `NotFound`; `ChatBusy` for a reply being written."""
    message = get_message(chat, message_id)
    if isinstance(message, ActiveReply):
        raise ChatBusy
    if message.muted != muted:
        message.muted_at = timezone.now() if muted else None
        Message.objects.filter(chat=chat, pk=message.pk).update(muted_at=message.muted_at)
    return message


def forget_message(key: ChatKey, message_id: UUID) -> None:
    """Remove the content of a message, if it is not removed yet.

    Raises `NotFound`; `ChatBusy` for a reply being written and its question.
    """
    with memory_span("delete_memory", key.id), transaction.atomic():
        message = _locked(key, message_id)
        if message.status != Status.DELETED:
            attachments.release(message)
            _change(message, status=Status.DELETED, **_EMPTIED)
            Erased.log(Erased.Kind.MESSAGE, message.pk)


def _locked(key: ChatKey, message_id: UUID) -> Message:
    """Lock the chat and return the final message. Nothing in the chat is begun, finished or folded until commit."""
    chat = lock_chat(key)
    concerned = Q(message_id=message_id) | Q(user_message=message_id)
    if chat is not None and ActiveReply.objects.filter(concerned, chat=chat).exists():
        if not finish.finish_in(key, finish.expired()):
            raise ChatBusy
        chat.refresh_from_db(fields=["last_seq", "open_seq"])
    message = Message.objects.filter(**key.columns, pk=message_id).first()
    if chat is None or message is None:
        raise NotFound("This chat has no such message.")
    if 0 < chat.open_seq <= message.seq:  # a turn that changed since the model saw it cannot go on
        open_turn.close(chat)
        chat.save(update_fields=["last_seq", "open_seq"])
    return message


def _change(message: Message, **fields: Any) -> None:
    """Store these fields, and update or remove everything derived from their former values."""
    former = message.content
    message.edited_at = timezone.now()
    for name, value in fields.items():
        setattr(message, name, value)
    message.save(update_fields=[*fields, "edited_at"])
    title = _retitled(message.chat_key, former)
    Chat.objects.filter(pk=message.chat_id, owner=message.owner_id).update(updated_at=message.edited_at, **title)
    turn = turn_of(message)
    # Other answers of the turn, including failed and replaced ones, may still have a line with words of its question.
    for row in set_lines(turn):
        row.save(update_fields=["line"])
    message_changed(message, turn[0].seq)
    logger.info(
        "message forgotten" if message.status == Status.DELETED else "message edited",
        extra={"chat": str(message.chat_id), "message_id": str(message.pk), "seq": message.seq},
    )


def _retitled(chat: ChatKey, former: str) -> dict[str, Any]:
    """Return the changes to the chat's title: one made from messages is made again from the first that is left."""
    titles = Chat.objects.values_list("title", "title_is_automatic")
    title, is_automatic = titles.get(pk=chat.id, owner=chat.owner_id)
    if not (is_automatic or title_repeats(title, former)):
        return {}
    questions = Message.objects.filter(**chat.columns, role=Role.USER).exclude(status=Status.DELETED)
    beginning = Left("content", TITLE_FROM_CHARS)
    first = questions.order_by("seq").values_list(beginning, flat=True).first()
    return {"title": automatic_title(first or ""), "title_is_automatic": True}


def turn_of(message: Message) -> list[Message]:
    """Return all messages of its turn in order: from a user message to before the next one."""
    rows = Message.objects.filter(**message.chat_key.columns).order_by("seq")
    questions = rows.filter(role=Role.USER).values_list("seq", flat=True)
    following = questions.filter(seq__gt=message.seq).first()
    rows = rows.filter(seq__gte=questions.filter(seq__lte=message.seq).last() or 1)
    return list(rows.filter(seq__lt=following) if following else rows)
