"""How the budget of a prompt is shared out: what the window, the stable part and the excerpts may have. Pure.

`memory.context.plan.planner` spends these parts, and `memory.policies.due` predicts whether the next prompt fits.
"""

from __future__ import annotations

from memory.limits import MemoryLimits

SHORT_SHARE = 0.2
"""Share of the prompt's budget: a turn before the window that costs more is never verbatim, because one long reply
would displace many lines and excerpts."""


def excerpts_part(limits: MemoryLimits) -> int:
    """Tokens reserved for excerpts."""
    return int(limits.prompt_budget * limits.recall_share) if limits.recalls else 0


def window_part(limits: MemoryLimits) -> int:
    """Maximum tokens of the window."""
    return int(limits.prompt_budget * limits.window_share)


def stable_part(limits: MemoryLimits, state_tokens: int) -> int:
    """Tokens for all that stays the same from one question to the next: state, lines and verbatim turns.

    If a state needs more than a third of them, the excess is taken from the excerpts instead of from the turns.
    """
    stable = limits.prompt_budget - excerpts_part(limits)
    return min(limits.prompt_budget, stable + max(0, state_tokens - stable // 3))


def short_turn(limits: MemoryLimits) -> int:
    """Maximum tokens of a turn that may be verbatim before the window."""
    return int(limits.prompt_budget * SHORT_SHARE)


def some_room(limits: MemoryLimits) -> int:
    """Tokens that excerpts may have if they are context rather than an answer."""
    return int(limits.prompt_budget * limits.recall_some_share)
