"""The estimate of a rebuild, compared with what the rebuild then took."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from chatmemory.llm.protocol import Price
from conversations.models import Chat, Message
from memory.folding.estimate import estimate_for
from memory.folding.request import request_resummarize
from memory.models import RevisionKind
from memory.policies import POLICIES
from tests.support.exhaustive import first_of
from tests.support.factories import add_turn, add_turns, brief_of, make_chat
from tests.support.fakes.scripted import TellingModel
from tests.support.folds import chat_of, revisions, run, turn

pytestmark = pytest.mark.usefixtures("sound")


@pytest.fixture
def telling(monkeypatch: pytest.MonkeyPatch) -> TellingModel:
    from chatmemory.llm import registry

    model = TellingModel()
    monkeypatch.setattr(registry, "chat_model", lambda: model)
    monkeypatch.setattr(registry, "is_offline", lambda: False)
    return model


@pytest.fixture(autouse=True)
def usual(settings: Any) -> None:
    settings.MEMORY_LIMITS = replace(settings.MEMORY_LIMITS, bite_tokens=1000, threshold=2000)


def talk(policy: str, turns: int) -> Chat:
    """A chat with turns of many different sizes."""
    chance = random.Random(policy)
    chat = make_chat(policy=policy)
    add_turns(
        chat,
        [
            (f"What of AB-{number:04}?", f"AB-{number:04}: " + "it is on its way. " * chance.randint(1, 60))
            for number in range(1, turns + 1)
        ],
    )
    return chat


@pytest.mark.parametrize("policy", first_of(POLICIES))
def test_a_rebuild_takes_what_was_foretold(policy: str, telling: TellingModel) -> None:
    chat = talk(policy, 60)
    foretold = estimate_for(chat, "rebuild")
    request_resummarize(chat, "rebuild")
    assert run(chat).outcome == "done"
    (made,) = (row for row in revisions(chat) if row.kind == RevisionKind.REBUILD)
    bites = len({str(prompt.messages[0].content) for prompt in telling.prompts})
    assert abs(foretold.calls - bites) <= 1
    assert abs(foretold.tokens - made.tokens_before) <= made.tokens_before * 0.1
    assert abs(foretold.turns - made.turns) <= 3


def test_nothing_is_read_but_counts(telling: TellingModel, django_assert_max_num_queries: Any) -> None:
    chat = talk("chunked", 60)
    with django_assert_max_num_queries(6) as captured:
        estimate_for(chat, "rebuild")
    assert not any('"content"' in query["sql"] for query in captured.captured_queries)


def test_an_update_reads_only_what_is_not_folded(telling: TellingModel) -> None:
    chat = chat_of(80)
    request_resummarize(chat, "update")
    run(chat)
    add_turns(chat, [turn(number) for number in range(81, 91)])
    update, whole = estimate_for(chat, "update"), estimate_for(chat, "rebuild")
    assert (update.turns, whole.turns) == (10, 87)
    assert estimate_for(chat, "update", after_seq=brief_of(chat).folded_through_seq - 8).turns == 14
    assert update.minutes is not None


def test_what_is_not_read_is_not_counted(telling: TellingModel) -> None:
    chat = chat_of(12)
    before = estimate_for(chat, "rebuild")
    add_turn(chat, "And?", "No answer", status="failed")
    replies = Message.objects.filter(chat=chat, role="assistant")
    replies.filter(seq=2).update(superseded_by=replies.get(seq=4))
    after = estimate_for(chat, "rebuild")
    assert after.turns == before.turns + 1
    assert after.tokens < before.tokens + 40
    replies.filter(seq=2).update(superseded_by=None)


def test_a_giant_is_as_long_as_a_bite(telling: TellingModel) -> None:
    chat = make_chat()
    add_turns(chat, [("Read this.", "word " * 5000), *(turn(number) for number in range(12))])
    assert estimate_for(chat, "rebuild").tokens < 1000 + 12 * 60


def test_a_short_chat_and_an_empty_one(telling: TellingModel) -> None:
    for chat in (chat_of(2), make_chat()):
        assert estimate_for(chat, "rebuild").calls == 0


def test_it_costs_the_tokens_at_the_price(telling: TellingModel, settings: Any) -> None:
    priced = replace(settings.SUMMARIZER, price=Price(Decimal(2), Decimal(1), Decimal(8)))
    settings.SUMMARIZER = priced
    would = estimate_for(talk("chunked", 60), "rebuild")
    assert would.input_tokens > would.tokens
    assert would.cost_usd == (would.input_tokens * 2 + would.output_tokens * 8) / Decimal(1_000_000)
    settings.SUMMARIZER = replace(priced, price=None)
    assert estimate_for(talk("interval", 60), "rebuild").cost_usd is None


def test_the_built_in_summarizer_costs_nothing() -> None:
    assert estimate_for(talk("chunked", 60), "rebuild").cost_usd == 0
