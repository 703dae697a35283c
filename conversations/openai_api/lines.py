"""Side requests: lines of a conversation that are not continued. Call it in the transaction that begins a turn.

Some clients send the whole history and a message of their own after each turn, such as to update a memory file, or
have a title made under the conversation's name. Nothing tells such a request from a question, until the client goes on
without it: then two chats have different turns in one place. The chat that goes on is the conversation; the other, if
it has no second turn, is set aside: erased like a temporary chat, and in no list. If it goes on after all, it returns.
"""

from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

from django.db.models import QuerySet

from conversations.models import Chat, ChatCompletion, Message, NamedConversation, Role

ASIDE = "aside"
"""The decision on a turn that turned out to be a side request."""
AT_ONCE = timedelta(minutes=1)
"""How soon before or after a question a side request about it may come."""
MAX_BESIDE = 20
"""Maximum number of chats that are set aside for one turn."""


def part(chat: Chat, through_seq: int, branch: UUID) -> UUID | None:
    """Note that `branch` has another turn in place of the chat's last one, if that is all that follows this message.

    Return the next of those that do, if so. `chat` is as it was found: conversations that merely go on at once are no
    siblings.
    """
    later = Message.objects.filter(chat=chat, role=Role.USER, seq__gt=through_seq, seq__lte=chat.last_seq)
    if later.count() != 1:
        return None
    return stand_beside(ChatCompletion.objects.filter(chat=chat, seq__gt=through_seq), chat.pk, branch)


def stand_beside(turn: QuerySet[ChatCompletion], chat_id: UUID, other: UUID) -> UUID:
    """Put a chat into the ring of those that stand beside a turn of this chat. Return the next one after it."""
    after = turn.exclude(sibling=None).values_list("sibling", flat=True).first()
    turn.update(sibling=other)
    return after or chat_id


def go_on(turn: ChatCompletion) -> None:
    """Take the chat whose last turn this is for the conversation, and set aside what stands beside it."""
    if turn.decision == ASIDE:
        Chat.objects.filter(pk=turn.chat_id, owner=turn.user_id).update(temporary=False)
        ChatCompletion.objects.filter(chat=turn.chat_id, user=turn.user_id, decision=ASIDE).update(decision="continued")
    replies = Message.objects.filter(owner_id=turn.user_id, pk=turn.message_id)
    asked = replies.values_list("reply_to__seq", flat=True).first()
    if asked is None:
        return
    turns = ChatCompletion.objects.filter(user=turn.user_id, chat=turn.chat_id, seq__range=(asked, turn.seq))
    first = turn if turn.seq == asked + 1 else turns.order_by("seq")[0]  # before its tools were called
    for chat_id in [*_ring(turn, asked), *_with_same_question(first)]:
        questions = Message.objects.filter(owner_id=turn.user_id, chat=chat_id, role=Role.USER)
        if questions.filter(seq__gte=asked).count() == 1 or questions.count() == 1:
            set_aside(turn.user_id, chat_id)


def _ring(turn: ChatCompletion, asked: int) -> Iterator[UUID]:
    """Yield the chats that stand beside this turn, up to one that is gone."""
    following, seen = turn.sibling, {turn.chat_id}
    while following is not None and following not in seen and len(seen) < MAX_BESIDE:
        yield following
        seen.add(following)
        turns = ChatCompletion.objects.filter(user=turn.user_id, chat=following).exclude(sibling=None)
        marked = list(turns.order_by("seq").values_list("seq", "sibling"))
        following = next((other for seq, other in marked if seq > asked), marked[-1][1] if marked else None)


def _with_same_question(turn: ChatCompletion) -> list[UUID]:
    """Return the chats without a name that began with this turn's question at about the same time, if they began under
    different instructions: to make a title of it, or to look for what is worth remembering."""
    around = (turn.created_at - AT_ONCE, turn.created_at + AT_ONCE)
    alike = ChatCompletion.objects.filter(user=turn.user_id, asked=turn.question, created_at__range=around)
    chats = dict(alike.exclude(chat=turn.chat_id).values_list("message_id", "chat")[:MAX_BESIDE])
    if not chats:
        return []
    replies = Message.objects.filter(owner_id=turn.user_id, pk__in=[turn.message_id, *chats])
    told = set(replies.values_list("context_record__turn_instructions_hash", flat=True))
    named = NamedConversation.objects.filter(user=turn.user_id, chat__in=chats.values())
    return sorted(set(chats.values()) - set(named.values_list("chat", flat=True))) if len(told) > 1 else []


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
