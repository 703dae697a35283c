"""The policy `interval` through the engine: it folds every four turns, each once, and never its own message."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conversations.models import Chat
from memory.policies.interval import OPENING
from tests.support.factories import add_turn, add_turns, brief_of, make_chat
from tests.support.fakes.scripted import KeepingModel, codes
from tests.support.folds import (
    asked,
    assert_folded,
    assert_sound,
    revisions,
    run,
    turn,
)
from tests.support.invariants import check_all


@pytest.fixture(autouse=True)
def large_bites(settings: Any) -> None:
    """Bites that hold four turns."""
    settings.MEMORY_LIMITS = replace(settings.MEMORY_LIMITS, bite_tokens=6000)


def interval_chat(turns: int = 0, **options: Any) -> Chat:
    """A chat with this policy and turns T1 to T`turns`."""
    chat = make_chat(policy="interval", options=options)
    brief = brief_of(chat)
    brief.options = options
    brief.save(update_fields=["options"])
    add_turns(chat, [turn(number) for number in range(1, turns + 1)])
    return chat


def live_through(chat: Chat, turns: int, first: int = 1) -> list[int]:
    """Add turns one by one, each followed by the worker; return the numbers of those that led to a fold."""
    folded = []
    for number in range(first, first + turns):
        add_turn(chat, *turn(number))
        if run(chat).published:
            folded.append(number)
    return folded


@pytest.mark.django_db
def test_it_folds_every_four_turns_and_keeps_three(model: KeepingModel) -> None:
    chat = interval_chat()
    assert live_through(chat, 23) == [7, 11, 15, 19, 23]
    assert asked(model)[:2] == [["T1", "T2", "T3", "T4"], ["T5", "T6", "T7", "T8"]]
    assert_folded(chat, through=20)
    assert [row.turns for row in revisions(chat)] == [4] * 5
    check_all()


@pytest.mark.django_db
def test_a_history_that_a_client_managed_is_taken_up_where_it_stands(model: KeepingModel) -> None:
    """Seed 004's `llmContextMessages`: the leading summary message is no turn, and nothing in it is lost."""
    chat = interval_chat()
    add_turns(chat, [("", f"{OPENING} T1 and T2 were agreed."), *(turn(number) for number in range(3, 10))])
    run(chat)
    assert model.inputs[0][0] == "T1 and T2 were agreed."
    assert asked(model)[0][0] == "T3"
    assert codes(brief_of(chat).global_summary)[:3] == ["T1", "T2", "T3"]
    assert_sound(chat)
    check_all()
