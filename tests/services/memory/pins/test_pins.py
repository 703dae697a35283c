"""Pins take room from lines: a chat that becomes due by them is folded, not only marked."""

from typing import Any

import pytest

from memory.briefs import decide_due
from memory.models import ConversationBrief
from tests.support.factories import add_turns, brief_of, make_chat
from tests.support.fakes.scripted import KeepingModel
from tests.support.folds import run_fold, turn

pytestmark = pytest.mark.django_db(transaction=True)


def is_due_with(brief: ConversationBrief, pin_tokens: int) -> bool:
    """Store `pin_tokens` in the brief, and return whether the chat is due."""
    brief.pin_tokens = pin_tokens
    decide_due(brief)
    brief.save(update_fields=["due", "pin_tokens"])
    return brief.due


def test_a_chat_that_its_pins_make_due_is_folded(model: KeepingModel, settings: Any) -> None:
    settings.MEMORY_PROMPT_TOKEN_BUDGET = 1000
    settings.MEMORY_CHUNK_SUMMARIZE_THRESHOLD = 100_000
    settings.MEMORY_MIN_FOLD_TOKENS = 100
    settings.MEMORY_FOLD_BITE_TOKENS = 6000
    chat = make_chat()
    for number in range(1, 60):
        add_turns(chat, [turn(number)])
        brief = brief_of(chat)
        if not is_due_with(brief, 0) and is_due_with(brief, 100):
            assert run_fold(chat).outcome == "done"
            assert not brief_of(chat).due
            return
    pytest.fail("no length of the chat is due by its pins alone")
