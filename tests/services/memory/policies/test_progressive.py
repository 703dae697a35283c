"""The policy `progressive` through the engine: the test scenarios of seed 001, and how it handles each failure."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from chatmemory.llm import registry
from chatmemory.llm.protocol import Prompt
from conversations import chat_lifecycle
from conversations.models import Chat
from memory.briefs import Memory, unfolded
from memory.context.build import preview
from memory.models import ConversationBrief
from memory.policies import get_policy
from memory.policies.progressive import DATA_HEADING, KINDS, SUMMARY_HEADING
from memory.policies.protocol import state_tokens
from tests.support.factories import add_turn, add_turns, brief_of, make_chat
from tests.support.fakes.behaviours import lorem
from tests.support.fakes.scripted import ScriptedModel, codes
from tests.support.folds import assert_sound, revisions, run
from tests.support.invariants import check_all

pytestmark = pytest.mark.django_db


class Extracting(ScriptedModel):
    """A summarizer that answers every request with all codes it is shown. Lines set by a test come first."""

    def _next(self) -> Any:
        return self.lines.pop(0) if self.lines else extract


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
    """The default bite size and prompt budget."""
    settings.MEMORY_LIMITS = replace(settings.MEMORY_LIMITS, bite_tokens=6000, prompt_budget=3000)


@pytest.fixture
def extracting(monkeypatch: pytest.MonkeyPatch) -> Extracting:
    """The configured summarizer."""
    model = Extracting()
    monkeypatch.setattr(registry, "chat_model", lambda: model)
    monkeypatch.setattr(registry, "is_offline", lambda: False)
    return model


def turn(number: int, words: int = 110) -> tuple[str, str]:
    """A turn of about 240 tokens, with its code."""
    return f"T{number} {lorem(words)}", f"Noted, T{number}: {lorem(words)}"


def progressive_chat(turns: int = 0, instructions: str = "", **options: Any) -> Chat:
    chat = make_chat(policy="progressive", options=options, instructions=instructions)
    ConversationBrief.objects.filter(chat=chat).update(options=options)
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


def compression(chat: Chat) -> dict[str, Any]:
    """The policy's own data, as stored."""
    data: dict[str, Any] = brief_of(chat).state["data"]
    return data


def total(chat: Chat) -> int:
    """The tokens of data, summary and unfolded turns."""
    brief = brief_of(chat)
    return state_tokens(get_policy("progressive"), Memory.of(brief).state) + unfolded(brief).tokens


def prompt_of(chat: Chat, question: str = "What now?") -> list[str]:
    return [message.content for message in preview(chat, question).prompt.messages]


# The scenarios of phase 9


def test_a_short_conversation_is_sent_as_it_is(extracting: Extracting) -> None:
    """Scenario 1."""
    chat = progressive_chat()
    assert live_through(chat, 5) == []
    assert extracting.prompts == []
    assert (brief_of(chat).version, brief_of(chat).state) == (0, {})
    assert prompt_of(chat) == [side for number in range(1, 6) for side in turn(number)] + ["What now?"]
    check_all()


def test_the_first_summarization(extracting: Extracting) -> None:
    """Scenario 2."""
    chat = progressive_chat()
    said = [turn(number) for number in range(1, 21)]
    (first,) = live_through(chat, 15)
    assert 11 <= first <= 14
    (row,) = revisions(chat)
    data = compression(chat)
    assert data.keys() == {"important_data", "key_order", "summary_version"}
    assert data["important_data"].keys() == {kind.name for kind in KINDS}
    assert data["summary_version"] == 1
    assert "T1 was said" in data["important_data"]["important_facts"]
    assert 100 <= len(brief_of(chat).global_summary.split()) <= 150
    assert (row.turns, row.from_seq) == (brief_of(chat).folded_through_seq // 2, 1)
    assert row.created_at is not None

    data_part, summary, *recent, question = prompt_of(chat)
    assert data_part.startswith(f"{DATA_HEADING}\n{{")
    assert summary == f"{SUMMARY_HEADING}\n{brief_of(chat).global_summary}"
    assert recent == [side for pair in said[row.turns : 15] for side in pair]
    assert question == "What now?"
    check_all()


def test_incremental_summarization(extracting: Extracting) -> None:
    """Scenario 3: each fold shows only the summary so far and the new turns, and the summary grows to its target."""
    chat = progressive_chat()
    folds = live_through(chat, 60)
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
    facts = compression(chat)["important_data"]["important_facts"]
    assert facts[-1] == f"{new[-1]} was said"
    assert len(set(facts)) == len(facts) > 20
    assert total(chat) < 3000
    assert_sound(chat)
    check_all()


def test_important_data_outlive_other_topics() -> None:
    """Scenario 4, with the built-in summarizer, which only fills what can be quoted without understanding it."""
    chat = progressive_chat()
    add_turn(chat, "Key sources: https://a.example/1, https://a.example/2", "I will cite both.")
    live_through(chat, 14, first=2)
    add_turn(chat, "It goes to Ocean Letters by 2027-03-01.", "Fine.")
    live_through(chat, 16, first=16)
    now = compression(chat)
    assert now["summary_version"] >= 2
    assert now["important_data"]["source_urls"] == ["https://a.example/1", "https://a.example/2"]
    assert "2027-03-01" in " ".join(prompt_of(chat))
    check_all()


# Its numbers


def test_a_chat_has_its_own_threshold_and_window(extracting: Extracting) -> None:
    chat = progressive_chat(12, threshold=2000, window_tokens=500)
    assert run(chat).published == 1
    assert unfolded(brief_of(chat)).tokens <= 500
    check_all()


# Failures


@pytest.mark.exhaustive
def test_a_rebuild_counts_its_bites_as_folds(extracting: Extracting) -> None:
    chat = make_chat(policy="chunked")
    add_turns(chat, [turn(number) for number in range(1, 61)])
    run(chat)
    chat_lifecycle.update_chat(chat, {"policy": "progressive"})
    while run(chat).outcome == "more":
        pass
    brief = brief_of(chat)
    assert (brief.policy, brief.due) == ("progressive", False)
    assert compression(chat)["summary_version"] == 3
    assert list(dict.fromkeys(codes(brief.global_summary)))[-1] == f"T{brief.folded_through_seq // 2}"
    check_all()
