"""The estimate of a rebuild, compared with what the rebuild then took."""

import random
from decimal import Decimal
from typing import Any

import pytest

from conversations.models import Chat
from memory.folding.request import estimate_for, request_resummarize
from memory.models import RevisionKind
from memory.policies import POLICIES
from tests.support.exhaustive import first_of
from tests.support.factories import add_turns, make_chat
from tests.support.fakes.scripted import TellingModel
from tests.support.folds import chat_of, revisions, run_fold, turn

pytestmark = pytest.mark.usefixtures("sound")


@pytest.fixture(autouse=True)
def usual(settings: Any) -> None:
    settings.MEMORY_FOLD_BITE_TOKENS = 1000
    settings.MEMORY_CHUNK_SUMMARIZE_THRESHOLD = 2000


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
def test_rebuild_costs_its_estimate(policy: str, telling: TellingModel) -> None:
    chat = talk(policy, 60)
    foretold = estimate_for(chat, "rebuild")
    request_resummarize(chat, "rebuild")
    assert run_fold(chat).outcome == "done"
    (made,) = (row for row in revisions(chat) if row.kind == RevisionKind.REBUILD)
    batches = len({str(prompt.messages[0].content) for prompt in telling.prompts})
    assert abs(foretold.calls - batches) <= 1
    assert abs(foretold.tokens - made.tokens_before) <= made.tokens_before * 0.1
    assert abs(foretold.turns - made.turns) <= 3


def test_estimate_reads_only_counts(telling: TellingModel, django_assert_max_num_queries: Any) -> None:
    chat = talk("chunked", 60)
    with django_assert_max_num_queries(6) as captured:
        estimate_for(chat, "rebuild")
    assert not any('"content"' in query["sql"] for query in captured.captured_queries)


def test_a_giant_is_as_long_as_a_batch(telling: TellingModel) -> None:
    chat = make_chat()
    add_turns(chat, [("Read this.", "word " * 5000), *(turn(number) for number in range(12))])
    assert estimate_for(chat, "rebuild").tokens < 1000 + 12 * 60


def test_a_short_chat_and_an_empty_one(telling: TellingModel) -> None:
    for chat in (chat_of(2), make_chat()):
        assert estimate_for(chat, "rebuild").calls == 0


def test_estimate_multiplies_tokens_by_price(telling: TellingModel, settings: Any) -> None:
    settings.MEMORY_SUMMARIZER_MODEL = "gpt-5-mini"
    would = estimate_for(talk("chunked", 60), "rebuild")
    assert would.input_tokens > would.tokens
    assert would.cost_usd == (would.input_tokens * Decimal("0.25") + would.output_tokens * 2) / 1_000_000
    settings.MEMORY_SUMMARIZER_MODEL = "llama-3.1"
    assert estimate_for(talk("interval", 60), "rebuild").cost_usd is None
