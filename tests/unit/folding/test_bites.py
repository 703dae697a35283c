"""How far a fold may reach."""

from __future__ import annotations

import pytest

from memory.briefs import Memory
from memory.limits import MemoryLimits
from memory.models import ConversationBrief
from memory.policies import State, get_policy
from tests.unit.context.makers import make_turn

LIMITS = MemoryLimits(k_raw_turns=3)


@pytest.mark.parametrize(
    ("turns", "through"),
    [
        ([], 4),
        ([3, 4, 5], 4),  # all are within the window
        ([2, 3, 4, 5], 6),
        ([2, 3, 4, 5, 6, 7], 10),
    ],
    ids=["none", "window", "one", "three"],
)
def test_it_reaches_up_to_the_window(turns: list[int], through: int) -> None:
    newest = [make_turn(number, f"question {number}", f"answer {number}") for number in turns]
    memory = Memory(ConversationBrief(), get_policy("chunked"), State(), LIMITS)
    assert memory.through_beyond(newest, 4) == through
