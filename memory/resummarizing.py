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
from memory.loading import each_turn, newest_turns, pending_seq, stored_state
from memory.models import ConversationBrief
from memory.policies import get_policy
from memory.policies.protocol import State
from memory.requesting import Mode, note_request
from memory.spans import beyond_window, is_due_now


@dataclass(frozen=True, slots=True)
class Outlook:
    """What resummarizing a chat would fold: all turns outside the window, or, rebuilding, from the first on."""

    turns: int
    tokens: int
    due: bool


def resummarize_now(
    chat: Chat, mode: Mode, *, tell: Callable[[folding.FoldReport], None] = lambda report: None
) -> folding.FoldReport:
    """Update or rebuild the memory of `chat` here, however long it takes; `tell` hears of every stretch.

    Must not run in a transaction.

    The report's outcome is `done` or `nothing` if all is well; `idle` if a worker is at it already.
    """
    note_request(chat, mode)
    total = folding.FoldReport(chat.pk)
    while True:
        report = folding.fold(chat.pk, until=time.monotonic() + settings.MEMORY_FOLD_SECONDS)
        total.add(report)
        tell(report)
        if report.outcome != "more":
            return total


def outlook(chat: Chat, mode: Mode, policy: str | None = None) -> Outlook:
    """What `mode` would fold now, by `policy` or the chat's own. Spends and changes nothing."""
    brief = ConversationBrief.objects.filter(chat=chat).first() or ConversationBrief(
        chat=chat, policy=chat.policy
    )
    pending = pending_seq(chat.pk)
    after = 0 if mode == "rebuild" else brief.folded_through_seq
    newest = newest_turns(chat.pk, after, before_seq=pending)
    state = State() if mode == "rebuild" else stored_state(brief)
    through = beyond_window(get_policy(policy or brief.policy), state, newest, after)
    turns = [turn.tokens for turn in each_turn(chat.pk, after, through + 1, text=False) if turn.tokens]
    due = is_due_now(brief, newest_turns(chat.pk, brief.folded_through_seq, before_seq=pending))
    return Outlook(turns=len(turns), tokens=sum(turns), due=due)
