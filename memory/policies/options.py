"""The options of a chat: which numbers it may choose for itself, and the limits that result. Pure.

There are three kinds: numbers of memory that every chat has, those that only some policies use (`Policy.uses_options`),
and the policy's own (`memory.policies.numbers`), named like their settings, without `MEMORY_` and the policy's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from memory.limits import RECALL_MODES, MemoryLimits
from memory.policies.focus import MAX_FOCUS_CHARS
from memory.policies.numbers import Bounds, bounds_of, numbers_in
from memory.policies.protocol import Policy

MOST_BUDGET = 1_000_000
"""Largest budget, in tokens. Its cost is counted like everything else that a user causes."""
NAMED = 5
"""Maximum number of unknown names that an error lists."""
NAME_CHARS = 40


@dataclass(frozen=True, slots=True)
class Shared:
    """A number of memory as a whole: its field in `MemoryLimits`, and its bounds."""

    field: str
    bounds: Bounds


EVERY_POLICY: Final[dict[str, Shared]] = {
    "budget": Shared("prompt_budget", Bounds(int, 200, MOST_BUDGET)),
    "budget_for": Shared("budget_for", Bounds(str, words=("memory", "prompt"))),
    "focus": Shared("focus", Bounds(str, max_chars=MAX_FOCUS_CHARS)),
    "min_fold_tokens": Shared("min_fold_tokens", Bounds(int, 0, MOST_BUDGET)),
    "recall": Shared("recall", Bounds(str, words=RECALL_MODES)),
    "recall_share": Shared("recall_share", Bounds(float, most=0.9)),
    "sources_token_budget": Shared("sources_budget", Bounds(int, 0, MOST_BUDGET)),
    "turns_as": Shared("turns_as", Bounds(str, words=("messages", "text"))),
}
"""What every chat may choose, by the name of the option. Only `focus` changes what is remembered."""

SOME_POLICIES: Final[dict[str, Shared]] = {
    "k_raw_turns": Shared("k_raw_turns", Bounds(int, 1, 50)),
    "summary_token_cap": Shared("summary_cap", Bounds(int, 50, 100_000)),
    "window_share": Shared("window_share", Bounds(float, most=1.0)),
    "threshold": Shared("threshold", Bounds(int, 200, 1_000_000)),
}
"""What a chat may choose if its policy uses it (`Policy.uses_options`)."""


def shared_by(policy: Policy) -> dict[str, Shared]:
    """The numbers of memory as a whole that a chat of that policy may choose."""
    return {**EVERY_POLICY, **{name: SOME_POLICIES[name] for name in policy.uses_options}}


def bounds_for(policy: Policy) -> dict[str, Bounds]:
    """Every option of that policy's chats, with its bounds."""
    shared = {name: one.bounds for name, one in shared_by(policy).items()}
    return {**shared, **{name: bounds for name, (_, bounds) in bounds_of(policy.numbers).items()}}


def with_options(limits: MemoryLimits, policy: Policy, options: Mapping[str, Any]) -> MemoryLimits:
    """Return `limits` with the values of `options`. Options that are invalid or not the policy's are ignored."""
    bounds = bounds_for(policy)
    fitting = {
        name: value for name, value in options.items() if name in bounds and bounds[name].allows(value)
    }
    if not fitting:
        return limits
    own = {name: value for name, value in fitting.items() if name in bounds_of(policy.numbers)}
    numbers = replace(numbers_in(limits, policy.name, policy.numbers), **own)
    shared: dict[str, Any] = {
        one.field: fitting[name]
        for name, one in shared_by(policy).items()
        if name in fitting.keys() - own.keys()
    }
    return replace(limits, numbers={**limits.numbers, policy.name: numbers}, **shared)


def option_errors(
    policy: Policy, options: Mapping[str, Any], limits: MemoryLimits, standing: Mapping[str, Any]
) -> list[str]:
    """Return the errors in `options` for a chat of that policy, one sentence each.

    An unknown name is an error unless the chat already has it with the same value (`standing`): then it was left
    behind by a previous policy, and has no effect. `limits` are those of the settings.
    """
    bounds = bounds_for(policy)
    known = {name: value for name, value in options.items() if name in bounds}
    unknown = [name for name in options.keys() - bounds.keys() if not _stands(name, options, standing)]
    wrong = [
        f"{name} must be {bounds[name].wanted}"
        for name, value in known.items()
        if not bounds[name].allows(value)
    ]
    wrong += [_unknown(policy, sorted(unknown), bounds)] if unknown else []
    return wrong or _at_odds(policy, known, with_options(limits, policy, known))


def effective_options(policy: Policy, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a chat's options that have an effect."""
    bounds = bounds_for(policy)
    return {name: value for name, value in options.items() if name in bounds and bounds[name].allows(value)}


def default_options(policy: Policy, limits: MemoryLimits) -> dict[str, Any]:
    """The value of each option of the policy's chats if nobody chooses one. `limits` are those of the settings."""
    shared = {name: getattr(limits, one.field) for name, one in shared_by(policy).items()}
    numbers = numbers_in(limits, policy.name, policy.numbers)
    return {**shared, **{name: getattr(numbers, name) for name in bounds_of(policy.numbers)}}


def _stands(name: str, options: Mapping[str, Any], standing: Mapping[str, Any]) -> bool:
    return name in standing and standing[name] == options[name]


def _unknown(policy: Policy, names: list[str], known: Iterable[str]) -> str:
    shown = ", ".join(repr(name[:NAME_CHARS]) for name in names[:NAMED])
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"The policy {policy.name} has no option {shown}{more}; it has: {', '.join(sorted(known))}"


def _at_odds(policy: Policy, options: Mapping[str, Any], limits: MemoryLimits) -> list[str]:
    """Errors in values that are valid by themselves but not together. Settings are checked when the server starts."""
    if "summary_token_cap" not in policy.uses_options or not options.keys() & {"budget", "summary_token_cap"}:
        return []
    if limits.summary_cap < limits.prompt_budget:
        return []
    told = f"summary_token_cap ({limits.summary_cap}) must be smaller than budget ({limits.prompt_budget})"
    return [f"{told}, which it is part of"]
