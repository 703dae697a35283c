"""Recall in the prompt of a turn: old messages are quoted word for word, once, within recall's share of the budget."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chatmemory.text.markers import RECALL_HEADING
from conversations import message_changes
from conversations.models import Chat, Message
from memory.context.build import past_context, preview
from memory.context.prompt import Context
from memory.models import ConversationBrief
from memory.policies import POLICIES
from tests.support.cards import begin, finish
from tests.support.exhaustive import first_of
from tests.support.factories import add_turns, make_chat
from tests.support.fakes.scripted import KeepingModel
from tests.support.folds import WORDS, run_fold

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]

CODE = "The locker of the blue rowing boat opens with 7319."


@pytest.fixture(autouse=True)
def usual(settings: Any, small: None) -> None:
    """Turns are folded early, and prompts have room for a few of them."""
    settings.MEMORY_PROMPT_TOKEN_BUDGET = 1000


def long_chat(turns: int = 60, **fields: Any) -> Chat:
    """A chat with `CODE` in its second turn."""
    chat = make_chat(**fields)
    talk = [(f"Q{number} {WORDS}", f"A{number} {WORDS}") for number in range(turns)]
    talk[1] = (CODE, "I have noted the code of the locker.")
    add_turns(chat, talk)
    return chat


def recalled(context: Context) -> str:
    return next((section.text for section in context.sections if section.kind == "recall"), "")


def test_recall_brings_old_turns_into_the_prompt() -> None:
    chat = long_chat()
    context = preview(chat, "What is the code of the locker again?")
    text = recalled(context)
    assert text.startswith(RECALL_HEADING)
    day = Message.objects.get(chat=chat, seq=3).created_at.date()
    assert f"[{day}]" in text.splitlines()
    assert f"\nUser: {CODE}\n" in text
    assert context.tokens <= context.plan.budget == 1000
    assert recalled(preview(chat, "Tell me more.")) == ""


@pytest.mark.parametrize("policy", first_of(POLICIES))
def test_recall_finds_folded_turns_under_every_policy(model: KeepingModel, policy: str) -> None:
    chat = long_chat(policy=policy)
    ConversationBrief.objects.filter(chat=chat).update(options={"recall": "auto"})
    if policy == "chunked":
        run_fold(chat)
    assert CODE in recalled(preview(chat, "Which code opens the locker?"))


def test_a_turn_with_recall_can_be_shown_again_to_the_letter(model: KeepingModel) -> None:
    chat = long_chat()
    run_fold(chat)
    reply = finish(begin(chat, "How do I open the locker of the rowing boat?"), "With 7319.", "")
    context, sent = past_context(reply) or pytest.fail("no record")
    assert CODE in recalled(context)
    assert context.prompt_hash == sent.prompt_hash
    again = finish(begin(chat, "And the blue rowing boat, what opens it?"), "The same.", "")
    run_fold(chat)
    for one in (reply, again):
        context, sent = past_context(one) or pytest.fail("no record")
        assert context.prompt_hash == sent.prompt_hash


def test_while_all_is_in_the_prompt_nothing_is_looked_for() -> None:
    chat = make_chat()
    add_turns(chat, [(CODE, "Noted.")] + [("And?", "So.")] * 5)
    with CaptureQueriesContext(connection) as short:
        assert recalled(preview(chat, "What is the code of the locker?")) == ""
    assert not any("recall" in one["sql"] or "tsvector" in one["sql"] for one in short.captured_queries)


def test_an_edited_message_is_found_by_the_wish_it_states_now() -> None:
    chat = long_chat()
    question = Message.objects.get(chat=chat, seq=5)
    message_changes.edit_message(
        chat, question.pk, "Tables, not essays: rather few words, that is how reports read well."
    )
    wished = "How should I write the code of the report?"
    assert "rather few words" in recalled(preview(chat, wished))
    message_changes.edit_message(chat, question.pk, "Essays.")
    assert "few words" not in recalled(preview(chat, wished))
