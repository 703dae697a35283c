"""The policies by name, and the functions that the rest of memory calls on them.

To add a policy, write one module here and add one line to `POLICIES`.
"""

from __future__ import annotations

from typing import Final

from memory.policies.answers import prompt_hash
from memory.policies.card import CardPolicy
from memory.policies.chunked import Chunked
from memory.policies.due import counts_of, is_due, turns_beyond, turns_due, window_of
from memory.policies.hierarchical import Hierarchical
from memory.policies.interval import Interval
from memory.policies.progressive import Progressive
from memory.policies.protocol import Ask, Counts, Policy, Refusal, State, StateSection, state_tokens

__all__ = [
    "POLICIES",
    "Ask",
    "Counts",
    "Policy",
    "Refusal",
    "State",
    "StateSection",
    "counts_of",
    "get_policy",
    "is_due",
    "policy_name",
    "prompt_hash",
    "state_tokens",
    "turns_beyond",
    "turns_due",
    "window_of",
]

POLICIES: Final[dict[str, Policy]] = {
    CardPolicy.name: CardPolicy(),
    Chunked.name: Chunked(),
    Hierarchical.name: Hierarchical(),
    Interval.name: Interval(),
    Progressive.name: Progressive(),
}

PER_POLICY: Final = {name: policy.numbers for name, policy in POLICIES.items()}
"""The class of each policy's own numbers, by the policy's name."""


def get_policy(name: str) -> Policy:
    """Return the policy of that name. Raise `KeyError` if there is none."""
    return POLICIES[name]


def policy_name(name: str) -> str:
    """The name of a policy for people, with the one that the API uses."""
    policy = POLICIES.get(name)
    return f"{policy.label} ({name})" if policy is not None and policy.label else name
