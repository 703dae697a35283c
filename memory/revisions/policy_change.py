"""Applying a change of a chat's policy or of the policy's options to its memory.

Each policy has a state of its own, so a new policy needs a rebuild from the originals. New options apply from the
next prompt and the next fold, and the memory stays, with one exception: if the window grows to include turns that are
folded already, the memory is rebuilt, so that they can be sent verbatim.
"""

from __future__ import annotations

from conversations.accounts import quotas
from conversations.models import Chat
from memory.briefs import Memory, decide_due, lock_brief
from memory.folding import dispatch
from memory.history.rows import newest_turns, pending_seq
from memory.models import PAUSE, ConversationBrief, Requested


def policy_changed(chat: Chat) -> None:
    """Switch the memory of `chat` to its new policy: rebuild its state from the originals, in the background."""
    brief = lock_brief(chat)
    brief.options = chat.options
    brief.epoch += 1
    _have_rebuilt(brief)
    brief.save(update_fields=["options", "epoch", "requested", "on_demand_at", "updated_at", *PAUSE])
    dispatch.enqueue_if_ready(brief)


def is_by_another_policy(chat: Chat) -> bool:
    """Whether the memory in use is of another policy than the chat's and no rebuild is requested."""
    brief = ConversationBrief.objects.filter(chat=chat).first()
    return bool(brief and brief.policy != chat.policy and brief.requested != Requested.REBUILD)


def options_changed(chat: Chat) -> None:
    """Apply the new options of `chat`, whose policy is unchanged.

    Raises `RateLimited` and `QuotaExceeded` if they require a rebuild that the owner's limits do not allow.
    """
    brief = lock_brief(chat)
    reach = Memory.of(brief).window_reach
    brief.options = chat.options
    memory = Memory.of(brief)
    if memory.window_reach > reach:
        brief.epoch += 1  # a running fold uses the narrower window
        if _window_is_folded(memory):
            quotas.take_rebuild(chat.owner_id)
            _have_rebuilt(brief)
    decide_due(brief)
    fields = ["options", "epoch", "requested", "on_demand_at", "updated_at", "due", *PAUSE]
    brief.save(update_fields=fields)
    dispatch.enqueue_if_ready(brief)


def _have_rebuilt(brief: ConversationBrief) -> None:
    brief.requested = Requested.REBUILD
    brief.unpause()
    dispatch.mark_demanded(brief)


def _window_is_folded(memory: Memory) -> bool:
    """Whether a turn that belongs into the window is folded already."""
    brief = memory.brief
    pending = pending_seq(brief.chat_id)
    newest = newest_turns(brief.chat_id, 0, limit=memory.window_reach, before_seq=pending)
    window = newest[memory.turns_beyond(newest) :]
    return bool(window) and window[0].from_seq <= brief.folded_through_seq
