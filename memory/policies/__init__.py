"""The policies by name. Each decides in its module what it asks for, what a fold takes and leaves, and its own options.

To add a policy, write one module here and add one line to `POLICIES`.
"""

from typing import Final

from memory.policies.card import CardPolicy
from memory.policies.chunked import Chunked
from memory.policies.hierarchical import Hierarchical
from memory.policies.interval import Interval
from memory.policies.progressive import Progressive
from memory.policies.protocol import Policy

POLICIES: Final[dict[str, Policy]] = {
    CardPolicy.name: CardPolicy(),
    Chunked.name: Chunked(),
    Hierarchical.name: Hierarchical(),
    Interval.name: Interval(),
    Progressive.name: Progressive(),
}


def policy_name(name: str) -> str:
    """The name of a policy for people, with the one that the API uses."""
    policy = POLICIES.get(name)
    return f"{policy.label} ({name})" if policy is not None and policy.label else name
