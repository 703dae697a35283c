"""The options of a chat: which it may choose for itself, and the limits that result. Pure.

There are three kinds: options of memory that every chat has, those that only some policies use (`Policy.uses_options`),
and the policy's own numbers (`Policy.numbers`).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from memory.limits import RECALL_MODES, MemoryLimits
from memory.policies.protocol import MAX_FOCUS_CHARS, Bounds, Policy, bounds_of

MAX_BUDGET = 1_000_000
"""Largest budget, in tokens. Its cost is counted like everything else that a user causes."""
MAX_NAME_CHARS = 40
"""How much of an unknown name an error shows."""

EVERY_POLICY: Final[dict[str, Bounds]] = {
    "budget": Bounds.whole(200, MAX_BUDGET),
    "budget_for": Bounds.words("memory", "prompt"),
    "focus": Bounds.text(MAX_FOCUS_CHARS),
    "min_fold_tokens": Bounds.whole(0, MAX_BUDGET),
    "recall": Bounds.words(*RECALL_MODES),
    "recall_share": Bounds.share(0.9),
    "sources_token_budget": Bounds.whole(0, MAX_BUDGET),
    "turns_as": Bounds.words("messages", "text"),
}
"""What every chat may choose, by the name of the option. Only `focus` changes what is remembered."""

SOME_POLICIES: Final[dict[str, Bounds]] = {
    "k_raw_turns": Bounds.whole(1, 50),
    "summary_token_cap": Bounds.whole(50, 100_000),
    "window_share": Bounds.share(1.0),
    "threshold": Bounds.whole(200, 1_000_000),
}
"""What a chat may choose if its policy uses it (`Policy.uses_options`)."""

FIELDS: Final = {
    "budget": "prompt_budget",
    "sources_token_budget": "sources_budget",
    "summary_token_cap": "summary_cap",
}
"""The fields of `MemoryLimits` that are not named like their option."""


def bounds_for(policy: Policy) -> dict[str, Bounds]:
    """Every option of that policy's chats, with its bounds."""
    some = {name: SOME_POLICIES[name] for name in policy.uses_options}
    return {**EVERY_POLICY, **some, **bounds_of(policy.numbers)}


def with_options(limits: MemoryLimits, policy: Policy, options: Mapping[str, Any]) -> MemoryLimits:
    """Return `limits` with the values of `options`. Options that are invalid or not the policy's are ignored."""
    bounds, own = bounds_for(policy), bounds_of(policy.numbers)
    valid = {name: value for name, value in options.items() if name in bounds and bounds[name].allows(value)}
    if not valid:
        return limits
    numbers = replace(policy.numbers.of(limits), **{name: valid[name] for name in valid if name in own})
    shared = {FIELDS.get(name, name): value for name, value in valid.items() if name not in own}
    return replace(limits, numbers={**limits.numbers, policy.numbers: numbers}, **shared)


def option_errors(
    policy: Policy, options: Mapping[str, Any], limits: MemoryLimits, standing: Mapping[str, Any]
) -> list[str]:
    """Return the errors in `options` for a chat of that policy, one sentence each.

    An unknown name is an error unless the chat already has it with the same value (`standing`): then it was left
    behind by a previous policy, and has no effect. `limits` are those of the settings.
    """
    bounds = bounds_for(policy)
    errors = [
        f"{name} must be {bounds[name].allowed}"
        for name, value in options.items()
        if name in bounds and not bounds[name].allows(value)
    ]
    left_behind = {name for name, value in standing.items() if name in options and options[name] == value}
    if unknown := sorted(options.keys() - bounds.keys() - left_behind):
        shown, known = unknown[0][:MAX_NAME_CHARS], ", ".join(sorted(bounds))
        errors.append(f"The policy {policy.name} has no option {shown!r}; it has: {known}")
    # Values that are valid by themselves but not together. Settings are checked when the server starts.
    if (
        not errors
        and "summary_token_cap" in policy.uses_options
        and options.keys() & {"budget", "summary_token_cap"}
    ):
        chosen = with_options(limits, policy, options)
        if chosen.summary_cap >= chosen.prompt_budget:
            errors.append(
                f"summary_token_cap ({chosen.summary_cap}) must be smaller than budget ({chosen.prompt_budget}), "
                "which it is part of"
            )
    return errors
