"""Which values an option may have."""

from __future__ import annotations

from typing import Any

import pytest

from memory.policies.protocol import Bounds


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
