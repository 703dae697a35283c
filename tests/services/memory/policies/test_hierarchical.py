"""The policy `hierarchical` through the engine: folds, and the safety table of seed 003 row by row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from chatmemory.llm import registry
from chatmemory.llm.protocol import Prompt
from conversations.models import Chat
from memory.briefs import unfolded
from memory.changes import messages_changed
from memory.context.build import preview
from memory.policies import get_policy
from memory.policies.hierarchical import HierarchicalNumbers, stored_facts
from memory.policies.protocol import State, state_tokens
from tests.support.factories import add_turn, add_turns, brief_of, make_chat
from tests.support.fakes.scripted import ScriptedModel, codes
from tests.support.folds import run, turn
from tests.support.invariants import check_all

pytestmark = pytest.mark.django_db

CONVERSATION = "## Conversation:\n"


class FactsModel(ScriptedModel):
    """A summarizer that returns each code it is shown, as a fact and in the narrative. Lines of a test come first."""

    def _next(self) -> Any:
        return self.lines.pop(0) if self.lines else tell

    @property
    def spans(self) -> list[list[str]]:
        """The new codes in each call, without repetitions."""
        return [new_codes(prompt) for prompt in self.prompts]


def tell(prompt: Prompt) -> str:
    rows = [{"key": code, "value": f"value of {code}", "category": "ENTITY"} for code in new_codes(prompt)]
    story = f"They spoke of {' '.join(new_codes(prompt))}."
    return json.dumps({"facts": rows, "removed": [], "narrative": story})


def new_codes(prompt: Prompt) -> list[str]:
    _, _, said = prompt.messages[0].content.partition(CONVERSATION)
    return list(dict.fromkeys(codes(said)))


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> FactsModel:
    told = FactsModel()
    monkeypatch.setattr(registry, "chat_model", lambda: told)
    monkeypatch.setattr(registry, "is_offline", lambda: False)
    return told


@pytest.fixture(autouse=True)
def in_order(settings: Any) -> Iterator[None]:
    """Bites of about 30 turns; after the test every chat must be consistent."""
    settings.MEMORY_LIMITS = replace(settings.MEMORY_LIMITS, bite_tokens=1000)
    yield
    check_all()


def chat_of(turns: int) -> Chat:
    chat = make_chat(policy="hierarchical")
    add_turns(chat, [turn(number) for number in range(1, turns + 1)])
    return chat


def small_bites(settings: Any) -> None:
    """Bites of three turns."""
    settings.MEMORY_LIMITS = replace(settings.MEMORY_LIMITS, bite_tokens=100)


def numbers(settings: Any, **chosen: Any) -> None:
    settings.MEMORY_LIMITS = replace(
        settings.MEMORY_LIMITS, numbers={HierarchicalNumbers: HierarchicalNumbers(**chosen)}
    )


def state_of(chat: Chat) -> State:
    brief = brief_of(chat)
    return State.from_json(brief.global_summary, brief.state)


def known(chat: Chat) -> list[str]:
    return [fact.key for fact in stored_facts(state_of(chat))]


def named(first: int, last: int) -> list[str]:
    return [f"T{number}" for number in range(first, last + 1)]


# Folds


def test_turn_by_turn_it_folds_all_but_ten_messages_each_time_there_are_more_than_twenty(
    model: FactsModel,
) -> None:
    chat = make_chat(policy="hierarchical")
    for number in range(1, 36):
        add_turn(chat, *turn(number))
        due = brief_of(chat).due
        assert due == (number in (11, 17, 23, 29, 35)), number
        if due:
            assert run(chat).outcome == "done"
            assert unfolded(brief_of(chat)).turns == 5
    assert [code for span in model.spans for code in span] == named(1, 30)
    assert known(chat) == named(1, 30)
    pieces = state_of(chat).summary.splitlines()
    assert [codes(piece) for piece in pieces] == [named(6 * fold + 1, 6 * fold + 6) for fold in range(5)]


@pytest.mark.exhaustive
def test_a_long_chat_costs_what_a_short_one_does(model: FactsModel, settings: Any) -> None:
    small_bites(settings)
    numbers(settings, facts_tokens=500)  # full after 60 turns
    chat = chat_of(120)
    run(chat)
    policy, state = get_policy("hierarchical"), state_of(chat)
    assert state_tokens(policy, state) <= 500 + 500 + 30
    assert known(chat)[-1] == "T111"
    asked = [prompt.messages[0].content for prompt in model.prompts]
    assert max(map(len, asked[20:])) < 1.3 * max(map(len, asked[10:20]))


# The seed's safety table, row by row


def test_when_room_is_short_facts_and_narrative_stay_and_old_turns_go(
    model: FactsModel, settings: Any
) -> None:
    chat = chat_of(20)
    run(chat)
    facts, narrative = get_policy("hierarchical").render(state_of(chat))
    settings.MEMORY_LIMITS = replace(settings.MEMORY_LIMITS, prompt_budget=330)
    context = preview(chat)
    texts = [message.content for message in context.prompt.messages]
    assert texts[:2] == [facts.text, narrative.text]
    assert texts[-2:] == list(turn(20)), "the newest turn is whole"
    assert context.plan.dropped > 0, "of the window, not all has room"
    assert context.tokens <= 330


def test_when_messages_change_facts_and_pieces_told_of_them_go(model: FactsModel, settings: Any) -> None:
    small_bites(settings)
    chat = chat_of(17)
    run(chat)
    assert known(chat) == named(1, 9)
    messages_changed(chat.pk, from_seq=9)
    assert known(chat) == named(1, 3)
    assert len(state_of(chat).summary.splitlines()) == 1
    run(chat)
    assert known(chat) == named(1, 9)
