"""How changes of a chat other than turns change its memory.

`messages_changed` when messages are added, removed or changed; `policy_changed` and `options_changed` when memory is to
be kept differently. Each policy has a state of its own, so a new policy needs a rebuild from the originals. New options
apply from the next prompt and the next fold, and the memory stays, with one exception: if the window grows to include
turns that are folded already, the memory is rebuilt, so that they can be sent verbatim.

Call each in the transaction of the change.
"""

from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from chatmemory.database.owned import ChatKey
from conversations.accounts import quotas
from conversations.models import Chat, Message
from memory.across import scope_index
from memory.briefs import Memory, lock_brief
from memory.folding import leases
from memory.history.rows import newest_turns, pending_seq
from memory.models import (
    ContextRecord,
    ConversationBrief,
    Pin,
    Requested,
    RevisionKind,
    SummaryRevision,
    new_brief,
)
from memory.pins import pins
from memory.recall import embeddings
from memory.revisions import step_back
from memory.usage import daily


def message_changed(message: Message, from_seq: int) -> None:
    """Update memory after the text of `message` was changed or removed, in a turn that begins at `from_seq`."""
    pins.message_changed(message)
    scope_index.message_changed(message)
    messages_changed(message.chat_key, from_seq=from_seq, forgets=True)


def messages_changed(chat: ChatKey, *, from_seq: int, forgets: bool = False) -> ConversationBrief:
    """Update memory after messages from `from_seq` on were added, removed or changed, other than by a turn.

    The brief steps back to the newest revision that had not seen them, and a fold in progress cannot publish. The
    remaining turns are folded again when due. With `forgets`, what later revisions say is deleted, too.
    """
    brief = lock_brief(chat)
    delay = 0
    if forgets and (from_seq <= brief.seen_seq or brief.due or brief.requested):
        # Another fold: it counts, and is delayed beyond the owner's limits. The edit itself is never refused.
        delay = quotas.rebuild_delay(chat.owner_id)
        leases.mark_demanded(brief, delay)
    brief.epoch += 1
    embeddings.step_back(chat, from_seq)
    if forgets:
        step_back.retract(brief, from_seq)
    elif from_seq <= brief.seen_seq:
        step_back.step_back(brief, from_seq)
    leases.save(brief)
    if not delay:  # otherwise the sweep has it done
        embeddings.enqueue_chat(chat)
    return brief


def policy_changed(chat: Chat) -> None:
    """Switch the memory of `chat` to its new policy: rebuild its state from the originals, in the background."""
    brief = lock_brief(chat.key)
    brief.options = chat.options
    brief.epoch += 1
    _have_rebuilt(brief)
    leases.save(brief)


def is_by_another_policy(chat: Chat) -> bool:
    """Whether the memory in use is of another policy than the chat's and no rebuild is requested."""
    brief = ConversationBrief.objects.filter(chat=chat).first()
    return bool(brief and brief.policy != chat.policy and brief.requested != Requested.REBUILD)


def options_changed(chat: Chat) -> None:
    """Apply the new options of `chat`, whose policy is unchanged.

    Raises `RateLimited` and `QuotaExceeded` if they require a rebuild that the owner's limits do not allow.
    """
    brief = lock_brief(chat.key)
    reach = Memory.of(brief).window_reach
    brief.options = chat.options
    memory = Memory.of(brief)
    if memory.window_reach > reach:
        brief.epoch += 1  # a running fold uses the narrower window
        newest = newest_turns(chat.key, 0, limit=memory.window_reach, before_seq=pending_seq(chat.key))
        window = newest[memory.count_before_window(newest) :]
        if window and window[0].from_seq <= brief.folded_through_seq:
            quotas.take_rebuild(chat.owner_id)
            _have_rebuilt(brief)
    leases.save(brief)


def _have_rebuilt(brief: ConversationBrief) -> None:
    brief.requested = Requested.REBUILD
    brief.unpause()
    leases.mark_demanded(brief)


def sharing_changed(chat: Chat) -> None:
    """Have what is said in `chat` found from the chats of its project, and from no others: it has been moved, or shares
    something else now.
    """
    scope_index.sharing_changed(chat)


def chat_branched(branch: Chat, origin: UUID) -> None:
    """Give a chat that begins like `origin` the memory of the messages that they share.

    Its first revision is a copy of the newest one of `origin` that has seen no other message, if that has the same
    policy. The remaining turns are folded when due.
    """
    brief = ConversationBrief(chat=branch, **new_brief(branch))
    older = step_back.newest_before(ChatKey(origin, branch.owner_id), branch.last_seq + 1)
    if older is not None and older.policy == branch.policy:
        step_back.apply_revision(brief, older)
        SummaryRevision.add(brief, kind=RevisionKind.BRANCH, parent=None, tokens_before=0, **older.provenance)
    leases.save(brief)
    embeddings.enqueue_chat(branch.key)


def rows_of(pins: Q, versions: Q) -> dict[str, QuerySet[Any]]:
    """The rows of memory that a deletion takes with it, by their name in its receipt, under these conditions."""
    return {"pins": Pin.objects.filter(pins), "versions": SummaryRevision.objects.filter(versions)}


def chat_deleted(chat: ChatKey) -> None:
    """Delete the chat's pins, and rows that refer only to its replies, before the chat is deleted with all others."""
    daily.count_chat(chat)
    pins.chat_deleted(chat)
    messages = Message.objects.filter(**chat.columns)
    ContextRecord.objects.filter(owner_id=chat.owner_id, reply__in=messages).delete()
