"""Which turns of a chat are its window, and when the others are due to be folded: one rule for all policies. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from memory.history.turns import (
    CUT_OFF_TOKENS,
    OUTLINE_COST,
    Turn,
    before_window,
    line_cost,
    line_text,
    lines_head_cost,
    verbatim_head_cost,
)
from memory.limits import MAX_TURNS, MemoryLimits
from memory.policies.protocol import Counts, Policy, State, state_tokens

MANY_TURNS = MAX_TURNS * 3 // 4
"""More unfolded turns than this are due, however short: above `MAX_TURNS` not even their lines could be shown."""


def window_of(policy: Policy, state: State, turns: Sequence[Turn], limits: MemoryLimits) -> int:
    """How many of the newest of `turns` (the newest unfolded ones, oldest first) the policy keeps verbatim."""
    newest = [turn for turn in turns if turn.tokens][-policy.window_reach(limits) :]
    return max(1, policy.window(state, newest, limits))


def turns_beyond(policy: Policy, state: State, turns: Sequence[Turn], limits: MemoryLimits) -> int:
    """How many of the oldest of `turns` (all unfolded ones) are beyond the window, so that a fold covers them."""
    return before_window(turns, window_of(policy, state, turns, limits))


def totals_of(turns: Iterable[Turn]) -> Counts:
    """Sum the counts of `turns`, without a window. Turns without text do not count."""
    costs = [(turn.tokens, line_cost(line_text(turn))) for turn in turns if turn.tokens]
    tokens, line_tokens = sum(cost for cost, _ in costs), sum(cost for _, cost in costs)
    return Counts(len(costs), tokens, line_tokens, window_turns=0, window_tokens=0)


def counts_of(policy: Policy, state: State, turns: Sequence[Turn], limits: MemoryLimits) -> Counts:
    """The counts of `turns`, all unfolded ones of a chat, oldest first."""
    window = turns[turns_beyond(policy, state, turns, limits) :]
    shown = [turn.tokens for turn in window if turn.tokens]
    return replace(totals_of(turns), window_turns=len(shown), window_tokens=sum(shown))


def is_due(
    policy: Policy, state: State, counts: Counts, limits: MemoryLimits, *, paused: bool = False
) -> bool:
    """True if turns of the chat should be folded: by the policy's measure, or because the prompt is getting full.

    Decided by counters only. If they cannot show that all lines fit, the chat is due. It never is while memory is
    off, or while no turn is beyond the window. No measure ends a pause, but the turns counted must fit.
    """
    beyond = counts.turns - counts.window_turns
    if not limits.enabled or beyond <= 0:
        return False
    progress = None if paused else policy.measure(state, counts, limits)
    if progress is not None and progress.has >= progress.threshold + (progress.unit == "tokens"):
        return True
    if counts.turns > MANY_TURNS:
        return True
    shown = state_tokens(policy, state) + (OUTLINE_COST if policy.asks_for_card else 0)
    has_enough = counts.tokens - counts.window_tokens >= limits.min_fold_tokens
    return has_enough and not _lines_fit(shown, counts, limits)


def turns_due(policy: Policy, state: State, turns: Sequence[Turn], limits: MemoryLimits) -> int:
    """How many of the oldest of `turns` (all unfolded ones) a fold covers that is due.

    Those beyond the window, except the newest of them that the policy leaves: at most half of their tokens, none that
    is too long to be verbatim there, and only if the chat is then no longer due.
    """
    counts = counts_of(policy, state, turns, limits)
    beyond = before_window(turns, counts.window_turns)
    left = min(policy.tokens_left(counts, limits), (counts.tokens - counts.window_tokens) // 2)
    folds = beyond
    while folds and (tokens := turns[folds - 1].tokens) <= min(left, limits.short_turn):
        left -= tokens
        folds -= 1
    still_due = is_due(policy, state, counts_of(policy, state, turns[folds:], limits), limits)
    return beyond if still_due else folds


def _lines_fit(state: int, counts: Counts, limits: MemoryLimits) -> bool:
    """Whether the plan of the next prompt will certainly have a line for every turn that it does not show verbatim.

    Either all lines fit beside state and window; or the window does not fit into its part, turns of it are clipped or
    become lines, and all lines fit into the tenth that is reserved for them.
    """
    head = verbatim_head_cost(limits.turns_as) + CUT_OFF_TOKENS * counts.window_turns
    lines = lines_head_cost() + counts.line_tokens
    usual = replace(limits, prompt_budget=limits.usual_budget)
    stable = usual.stable_part(state)
    window = min(counts.window_tokens, usual.window_part)
    if window + head + lines + state <= stable:
        return True
    tenth = usual.prompt_budget // 10
    return counts.window_tokens > stable - state - tenth and lines <= tenth
