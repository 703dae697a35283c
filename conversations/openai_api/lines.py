"""Side requests: lines of a conversation that are not continued. Call it in the transaction that begins a turn.

Some clients send the whole history and a message of their own after each turn, such as to update a memory file, or
have a title made under the conversation's name. Nothing tells such a request from a question, until the client goes on
without it: then two chats have different turns in one place. The chat that goes on is the conversation; the other, if
it has no second turn, is set aside: erased like a temporary chat, and in no list. If it goes on after all, it returns.
"""

from uuid import UUID

from conversations.models import Chat, ChatCompletion, Message, Role

ASIDE = "aside"
"""The decision on a turn that turned out to be a side request."""


def part(chat: Chat, through_seq: int, branch: UUID) -> UUID | None:
    """Note that `branch` has another turn in place of the chat's last one, if that is all that follows this message.

    Return the chat if so. `chat` is as it was found: conversations that merely go on at once are no siblings.
    """
    later = Message.objects.filter(chat=chat, role=Role.USER, seq__gt=through_seq, seq__lte=chat.last_seq)
    if later.count() != 1:
        return None
    ChatCompletion.objects.filter(chat=chat, seq__gt=through_seq).update(sibling=branch)
    return chat.pk


def go_on(turn: ChatCompletion) -> None:
    """Take the chat whose last turn this is for the conversation, and set its sibling aside."""
    if turn.sibling is None:
        return
    if turn.decision == ASIDE:
        Chat.objects.filter(pk=turn.chat_id, owner=turn.user_id).update(temporary=False)
        ChatCompletion.objects.filter(chat=turn.chat_id, user=turn.user_id, decision=ASIDE).update(decision="continued")
    replies = Message.objects.filter(owner_id=turn.user_id, pk=turn.message_id)
    asked = replies.values_list("reply_to__seq", flat=True).first()
    others = Message.objects.filter(owner_id=turn.user_id, chat=turn.sibling, role=Role.USER)
    if asked is not None and others.filter(seq__gte=asked).count() == 1:
        set_aside(turn.user_id, turn.sibling)


def set_aside(owner_id: int, chat_id: UUID) -> None:
    """Set a chat aside, unless it is pinned, or another turn begins in it just now."""
    chats = Chat.objects.select_for_update(skip_locked=True).filter(owner=owner_id, pinned=False, temporary=False)
    if (chat := chats.filter(pk=chat_id).first()) is None:
        return
    chat.temporary = True
    chat.save(update_fields=["temporary"])
    last = ChatCompletion.objects.filter(chat=chat, user=owner_id).order_by("-seq").first()
    if last is not None:
        last.decision = ASIDE
        last.save(update_fields=["decision"])
