"""Which options a chat may have, with which values, and what is said of others."""

from typing import Any

import pytest

from memory.limits import MemoryLimits
from memory.policies import POLICIES
from memory.policies.protocol import Bounds, bounds_for, option_errors


@pytest.mark.parametrize(
    ("bounds", "valid", "invalid"),
    [
        (Bounds.whole(2, 9), [2, 9], [1, 10, 2.0, True, "5", None]),
        (Bounds.share(0.9), [0, 0.9, 0.25], [-0.1, 0.91, 1, True, "0.5"]),
        (Bounds.words("off", "auto"), ["off", "auto"], ["on", "", None, ["off"]]),
        (Bounds.text(3), ["", "abc"], ["abcd", 1, None]),
        (Bounds.switch(), [True, False], [1, 0, "true", None]),
    ],
)
def test_values_within_the_bounds_are_valid(bounds: Bounds, valid: list[Any], invalid: list[Any]) -> None:
    assert [bounds.allows(value) for value in valid] == [True] * len(valid)
    assert [bounds.allows(value) for value in invalid] == [False] * len(invalid)


def errors(policy: str, options: dict[str, Any], standing: dict[str, Any] | None = None) -> list[str]:
    return option_errors(POLICIES[policy], options, MemoryLimits(), standing or {})


@pytest.mark.parametrize(
    ("policy", "options", "named"),
    [
        ("chunked", {"every_turns": 5}, "'every_turns'"),  # an option of another policy
        ("hierarchical", {"k_raw_turns": 5, "budget": 900}, "'k_raw_turns'"),
        ("card", {"x" * 100: 1}, repr("x" * 40)),
        ("progressive", {"": None}, "''"),
    ],
)
def test_options_report_unknown_with_known_names(policy: str, options: dict[str, Any], named: str) -> None:
    has = ", ".join(sorted(bounds_for(POLICIES[policy])))
    assert errors(policy, options) == [f"The policy {policy} has no option {named}; it has: {has}"]


def test_options_report_all_errors() -> None:
    found = errors("interval", {"every_turns": 0, "window_turns": "3", "budget": 1.5, "thresold": 9})
    assert [one.split(" must ")[0] for one in found[:3]] == ["every_turns", "window_turns", "budget"]
    assert "no option 'thresold'" in found[3]


def test_a_summary_has_to_fit_its_budget() -> None:
    (told,) = errors("chunked", {"budget": 400})
    assert told == "summary_token_cap (500) must be smaller than budget (400), which it is part of"
    assert errors("chunked", {"budget": 400, "summary_token_cap": 100}) == errors("card", {"budget": 400}) == []


def test_options_of_another_policy_are_ignored() -> None:
    assert errors("card", {"every_turns": 8}, {"every_turns": 8}) == []
    assert len(errors("card", {"every_turns": 9}, {"every_turns": 8})) == 1
    assert len(errors("card", {"window_turns": 0}, {"window_turns": 0})) == 1, "a shared name must fit"
