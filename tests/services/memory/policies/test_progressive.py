"""The policy `progressive` through the engine: the test scenarios of seed 001."""

import json
from itertools import pairwise
from typing import Any

import pytest

from chatmemory.llm.protocol import Prompt
from conversations.models import Chat
from memory.briefs import Memory, unfolded
from memory.context.build import preview
from memory.policies import POLICIES
from memory.policies.progressive import DATA_HEADING, KINDS, SUMMARY_HEADING
from memory.policies.protocol import state_tokens
from tests.support.factories import add_turn, brief_of, make_chat
from tests.support.fakes.behaviours import lorem
from tests.support.fakes.scripted import ScriptedModel, codes
from tests.support.folds import revisions, run_fold, summarized_by

pytestmark = pytest.mark.usefixtures("sound")


class Extracting(ScriptedModel):
    """A summarizer that answers every request with all codes it is shown."""

    def _next(self) -> Any:
        return extract


def extract(prompt: Prompt) -> str:
    """The codes of the new turns as facts, and all codes in a summary of the target's lower length."""
    shown = prompt.messages[0].content
    new = shown.partition("=== NEW_TURNS ===")[2]
    data = {"important_facts": [f"{code} was said" for code in dict.fromkeys(codes(new))]}
    words = int(prompt.instructions.partition("Aim at ")[2].partition(" ")[0] or 0)
    summary = f"{' '.join(dict.fromkeys(codes(shown)))}. {lorem(words)}."
    return json.dumps({"important_data": data, "summary": summary})


@pytest.fixture(autouse=True)
def usual(settings: Any) -> None:
    """The default batch size and prompt budget."""
    settings.MEMORY_FOLD_BITE_TOKENS = 6000
    settings.MEMORY_PROMPT_TOKEN_BUDGET = 3000


@pytest.fixture
def extracting(monkeypatch: pytest.MonkeyPatch) -> Extracting:
    return summarized_by(Extracting(), monkeypatch)


def turn(number: int, words: int = 110) -> tuple[str, str]:
    """A turn of about 240 tokens, with its code."""
    return f"T{number} {lorem(words)}", f"Noted, T{number}: {lorem(words)}"


def live_through(chat: Chat, turns: int, first: int = 1) -> list[int]:
    """Add turns one by one, each followed by the worker; return the numbers of those that led to a fold."""
    folded = []
    for number in range(first, first + turns):
        add_turn(chat, *turn(number))
        if run_fold(chat).published:
            folded.append(number)
    return folded


def test_a_conversation_grows_and_each_fold_shows_only_the_summary_so_far_and_the_new_turns(
    extracting: Extracting,
) -> None:
    """Scenarios 1 to 3: sent as it is at first, then summarized, and the summary grows to its target."""
    chat = make_chat(policy="progressive")
    said = [turn(number) for number in range(1, 16)]
    first, *_ = folds = live_through(chat, 15)
    assert 11 <= first <= 14
    (row,) = revisions(chat)
    messages = preview(chat, "What now?").prompt.messages
    data_part, summary, *recent, question = [message.content for message in messages]
    assert data_part.startswith(f"{DATA_HEADING}\n{{")
    assert summary == f"{SUMMARY_HEADING}\n {brief_of(chat).global_summary}"
    assert recent == [side for pair in said[row.turns :] for side in pair]
    assert question == "What now?"

    folds += live_through(chat, 45, first=16)
    rows = revisions(chat)
    assert len(rows) == len(folds) >= 7
    assert min(after - before for before, after in pairwise(folds)) >= 4
    assert [row.state["data"]["summary_version"] for row in rows] == list(range(1, len(rows) + 1))
    lengths = [len(row.global_summary.split()) for row in rows]
    for length, (low, high) in zip(lengths, [(100, 150), (200, 250), (300, 350), (400, 450)], strict=False):
        assert low <= length <= high
    assert all(500 <= length <= 750 for length in lengths[4:])
    assert [existing for existing, _ in extracting.inputs] == ["", *(row.global_summary for row in rows[:-1])]
    new = [code for _, turns in extracting.inputs for code in dict.fromkeys(codes(str(turns)))]
    assert new == [f"T{number}" for number in range(1, brief_of(chat).folded_through_seq // 2 + 1)]
    data = brief_of(chat).state["data"]
    assert data.keys() == {"important_data", "key_order", "summary_version"}
    assert data["important_data"].keys() == {kind.name for kind in KINDS}
    facts = data["important_data"]["important_facts"]
    assert facts[-1] == f"{new[-1]} was said"
    assert len(set(facts)) == len(facts) > 20
    brief = brief_of(chat)
    assert state_tokens(POLICIES["progressive"], Memory.of(brief).state) + unfolded(brief).tokens < 3000
