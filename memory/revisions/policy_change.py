"""Remembering a chat another way from now on: by another policy, or by other numbers.

A policy has a state of its own, which is made anew from the originals. Numbers hold from the next prompt and the next
fold on, and what is remembered stays; but for a window that reaches into what is folded: its turns are to be verbatim.
"""

from __future__ import annotations

from conversations.accounts import quotas
from conversations.models import Chat
from memory.briefs import limits_of, stored_state
from memory.counters import COUNTERS, decide_due
from memory.folding import dispatch
from memory.history.rows import newest_turns, pending_seq
from memory.models import ConversationBrief, Requested
from memory.models.briefs import new_brief
from memory.pause import PAUSE, unpause
from memory.policies import get_policy, window_of
from memory.policies.window import before_window


def policy_changed(chat: Chat) -> None:
    """Remember `chat` by its new policy: rebuild its state from the originals, in the background."""
    brief = _locked_brief(chat)
    brief.options = chat.options
    brief.epoch += 1
    _have_rebuilt(brief)
    brief.save(update_fields=["options", "epoch", "requested", "on_demand_at", "updated_at", *PAUSE])
    dispatch.hint(brief)


def is_by_another_policy(chat: Chat) -> bool:
    """Whether the memory in use is by another policy than the chat's, as after a restore, and nothing will change that
    by itself."""
    brief = ConversationBrief.objects.filter(chat=chat).first()
    return bool(brief and brief.policy != chat.policy and brief.requested != Requested.REBUILD)


def options_changed(chat: Chat) -> None:
    """Remember `chat` by its new options, whose policy is the one it had.

    Raises `RateLimited` and `QuotaExceeded` where they want a rebuild and that is one too many.
    """
    brief = _locked_brief(chat)
    reach = _window_reach(brief)
    brief.options = chat.options
    if _window_reach(brief) > reach:
        brief.epoch += 1  # a fold under way has the narrower window
        if _window_is_folded(brief):
            quotas.take_rebuild(chat.owner_id)
            _have_rebuilt(brief)
    decide_due(brief)
    fields = ["options", "epoch", "requested", "on_demand_at", "updated_at", *PAUSE, *COUNTERS]
    brief.save(update_fields=fields)
    dispatch.hint(brief)


def _locked_brief(chat: Chat) -> ConversationBrief:
    rows = ConversationBrief.objects.select_for_update()
    brief, _ = rows.get_or_create(chat=chat, defaults=new_brief(chat))
    brief.chat = chat  # as it is to be
    return brief


def _have_rebuilt(brief: ConversationBrief) -> None:
    brief.requested = Requested.REBUILD
    unpause(brief)
    dispatch.demand(brief)


def _window_reach(brief: ConversationBrief) -> int:
    """The most turns that the window can come to by the brief's numbers. One that goes by tokens fills as it may."""
    return get_policy(brief.policy).window_reach(limits_of(brief))


def _window_is_folded(brief: ConversationBrief) -> bool:
    """Whether a turn that the window is to hold is folded already."""
    policy, limits = get_policy(brief.policy), limits_of(brief)
    newest = newest_turns(
        brief.chat_id, 0, limit=policy.window_reach(limits), before_seq=pending_seq(brief.chat_id)
    )
    window = newest[before_window(newest, window_of(policy, stored_state(brief), newest, limits)) :]
    return bool(window) and window[0].from_seq <= brief.folded_through_seq
