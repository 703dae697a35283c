"""Chats of the evidence benchmark go through the product's services: import, folds that keep no fact, and turns."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.evidence.matching import Piece
from benchmarks.evidence.measure import memory_text, share
from benchmarks.evidence.questions import Question, Sample
from benchmarks.evidence.stored import stored
from benchmarks.evidence.turns import played, summed
from benchmarks.recall.sets import Message
from conversations.models import Chat
from memory import services
from memory.models import ConversationBrief
from tests.support.exhaustive import first_of
from tests.support.folds import WORDS

pytestmark = pytest.mark.django_db(transaction=True)

NEEDED = "My bicycle is locked with the code 7731."


def sample(turns: int = 12) -> Sample:
    """A chat that is due, with the needed fact at its beginning."""
    said = [Message("user", NEEDED), Message("assistant", "Noted.")]
    for number in range(turns):
        said += [Message("user", f"Question {number}?"), Message("assistant", f"{number}: {WORDS * 30}")]
    question = Question("value", "What is the code of my bicycle?", (Piece((NEEDED,)),))
    return Sample("made", 1, "made", tuple(said), (question,))


@pytest.mark.parametrize("policy", first_of(["chunked", "hierarchical", "interval", "progressive"]))
def test_a_chat_is_folded_into_a_summary_that_says_nothing(policy: str, settings: Any) -> None:
    settings.MEMORY_POLICY = policy
    one = sample(40)
    chat = stored(one)
    assert ConversationBrief.objects.get(pk=chat.pk).folded_through_seq > 0
    context = services.preview(chat)
    assert share(one.questions[0], memory_text(context)) == 0
    asked = services.preview(chat, one.questions[0].text)
    assert share(one.questions[0], memory_text(asked)) == 1
    assert share(one.questions[0], memory_text(asked, besides="recall")) == 0
    assert stored(one).pk == chat.pk


def test_a_chat_that_was_not_folded_is_not_taken_for_one_that_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(row: Chat) -> None:
        raise RuntimeError(f"{row.pk} was not folded")

    one = sample(40)
    with monkeypatch.context() as patched:
        patched.setattr("benchmarks.evidence.stored.fold", broken)
        with pytest.raises(RuntimeError):
            stored(one)
    assert ConversationBrief.objects.get(pk=stored(one).pk).folded_through_seq > 0


def test_the_last_turns_are_played_on_a_chat_that_is_removed_again() -> None:
    turns = list(played(sample(), 3))
    assert len(turns) == 3
    assert turns[0].prefix == 0
    assert all(turn.prompt > turn.memory > 0 for turn in turns)
    assert not Chat.objects.exists()
    whole = summed([turns, turns])
    assert whole.turns == 6
    assert whole.cached == sum(turn.prefix for turn in turns[1:]) / sum(turn.prompt for turn in turns[1:])
