"""Resummarizing a chat here and now, and what that would fold. The command's work.

Asking for it is `memory.requesting`'s, how it goes `memory.folding`'s.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings

from conversations.models import Chat
from memory import folding
from memory.chat_limits import limits_of, new_brief, wanted_limits
from memory.loading import each_turn, newest_turns, pending_seq, stored_state
from memory.models import ConversationBrief
from memory.policies import get_policy
from memory.policies.protocol import State
from memory.requesting import Mode, note_request
from memory.spans import beyond_window


@dataclass(frozen=True, slots=True)
class Outlook:
    """What resummarizing a chat would fold: all turns outside the window, or, rebuilding, from the first on."""

    turns: int
    tokens: int


def resummarize_now(
    chat: Chat, mode: Mode, *, tell: Callable[[int], None] = lambda _: None
) -> folding.FoldReport:
    """Update or rebuild the memory of `chat` here, however long it takes; `tell` is told of each bite.

    Must not run in a transaction. The outcome is `done` or `nothing` if all is well; `idle` if a worker is at it.
    """
    note_request(chat, mode)
    total = folding.FoldReport(chat.pk)
    while True:
        report = folding.fold(chat.pk, until=time.monotonic() + settings.MEMORY_FOLD_SECONDS, tell=tell)
        total.add(report)
        if report.outcome != "more":
            break
    if total.published and report.outcome in ("idle", "nothing"):
        total.outcome = "done"
    return total


def outlook(chat: Chat, mode: Mode, policy: str | None = None) -> Outlook:
    """What `mode` would fold now, by `policy` or the chat's own. Spends and changes nothing."""
    brief = ConversationBrief.objects.filter(chat=chat).first() or ConversationBrief(
        chat=chat, **new_brief(chat)
    )
    by = get_policy(policy or brief.policy)
    limits = limits_of(brief) if by.name == brief.policy else wanted_limits(chat, by)
    after = 0 if mode == "rebuild" else brief.folded_through_seq
    newest = newest_turns(chat.pk, after, before_seq=pending_seq(chat.pk))
    state = State() if mode == "rebuild" else stored_state(brief)
    through = beyond_window(by, state, newest, after, limits)
    turns = [turn.tokens for turn in each_turn(chat.pk, after, through + 1, text=False) if turn.tokens]
    return Outlook(turns=len(turns), tokens=sum(turns))
