"""Cards of replies that race with folds, crashes, changes and regenerated answers; and what a card costs its turn."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chatmemory.llm.protocol import Prompt
from conversations.models import Chat, Message
from conversations.replies import finish as finishing
from conversations.replies.begin import begin_regeneration
from conversations.replies.reply import BegunTurn, Ending
from memory.briefs import unfolded
from memory.changes import messages_changed
from memory.folding.request import request_resummarize
from memory.policies.card import CONTEXT
from tests.support.cards import begin, card_chat, card_of, finish, kept_codes, live, marks
from tests.support.factories import add_turns, brief_of
from tests.support.fakes.scripted import KeepingModel
from tests.support.folds import run_fold, together, turn

pytestmark = pytest.mark.usefixtures("roomy", "sound")


# Races and crashes


def test_a_fold_under_way_does_not_overwrite_a_card_that_came_meanwhile(model: KeepingModel) -> None:
    chat = card_chat()
    add_turns(chat, [turn(number, 20) for number in range(1, 40)])

    def slowly(prompt: Prompt) -> str:
        live(chat, 40)
        return kept_codes(prompt)

    model.lines = [slowly, kept_codes]
    report = run_fold(chat)
    assert (report.lost, report.published) == (1, 1)
    assert card_of(chat)["decisions"] == ["keep T40"]
    assert "T39" in card_of(chat)["goal"]


def test_a_card_goes_on_from_a_rebuild_that_came_meanwhile(model: KeepingModel) -> None:
    chat = card_chat()
    for number in range(1, 4):
        live(chat, number)
    begun = begin(chat, "T4 asked")
    request_resummarize(chat, "rebuild")
    model.lines = [kept_codes]
    run_fold(chat)
    finish(begun, "T4 answered", {"decisions": ["keep T4"]})
    assert card_of(chat) == {"goal": "T1 T2", "techniques": ["folded"], "decisions": ["keep T4"]}
    assert brief_of(chat).folded_through_seq == 6


def test_messages_that_changed_while_a_reply_was_written_void_its_card(model: KeepingModel) -> None:
    chat = card_chat()
    live(chat, 1)
    begun = begin(chat, "T2 asked")
    messages_changed(chat.key, from_seq=2)
    finish(begun, "T2 answered", {"goal": "what was taken out"})
    assert (card_of(chat), marks(chat)) == ({}, ["kept", "missing"])
    live(chat, 3)
    assert brief_of(chat).folded_through_seq == 4


@pytest.mark.django_db(transaction=True)
def test_a_card_and_a_fold_at_once_leave_both_in_order(model: KeepingModel) -> None:
    chat = card_chat()
    add_turns(chat, [turn(number, 20) for number in range(1, 40)])
    begun = begin(chat, "T40 asked")
    model.lines = [kept_codes] * 4
    together(lambda: run_fold(chat), lambda: finish(begun, "T40 answered", {"decisions": ["keep T40"]}))  # type: ignore[arg-type]  # the results are not used
    run_fold(chat)
    assert card_of(chat)["decisions"] == ["keep T40"]
    # Whichever came first, T39 was folded or was shown to the reply whose card was kept.
    assert "T38" in card_of(chat)["goal"]
    assert (brief_of(chat).folded_through_seq, unfolded(brief_of(chat)).turns) == (78, 1)


# Regenerated answers


def regenerate(chat: Chat, reply: Message) -> BegunTurn:
    begun = begin_regeneration(chat.owner, chat.pk, reply.pk, None)
    assert isinstance(begun, BegunTurn)
    return begun


def test_a_second_answer_starts_from_the_card_before_the_first(model: KeepingModel) -> None:
    chat = card_chat()
    live(chat, 1, {"goal": "A"})
    first = live(chat, 2, {"goal": "B", "decisions": ["of the first answer"]})
    begun = regenerate(chat, first)
    assert begun.prompt.messages[0].content.startswith(CONTEXT + '{"g":"A"')
    second = finish(begun, "T2 answered anew", {"open_q": ["why?"]})
    assert card_of(chat) == {"goal": "A", "open_q": ["why?"]}
    third = finish(regenerate(chat, second), "T2 answered again", {"open_q": ["how?"]})
    assert card_of(chat) == {"goal": "A", "open_q": ["how?"]}
    assert brief_of(chat).folded_through_seq == 2
    messages_changed(chat.key, from_seq=third.seq)
    assert card_of(chat) == {"goal": "A"}, "not that of an answer that was replaced"


def test_a_cancelled_second_answer_takes_the_card_of_the_first_with_it(model: KeepingModel) -> None:
    chat = card_chat()
    live(chat, 1)
    first = live(chat, 2)
    begun = regenerate(chat, first)
    finishing.finish(begun.pending, "T2 half", Ending.cancelled())
    assert (card_of(chat), unfolded(brief_of(chat)).turns) == ({"decisions": ["keep T1"]}, 2)


# What it costs


def queries(chat: Chat, number: int) -> int:
    begun = begin(chat, turn(number)[0])
    with CaptureQueriesContext(connection) as captured:
        finish(begun, turn(number)[1], {"decisions": [f"keep T{number}"]})
    return len(captured)


@pytest.mark.exhaustive
def test_a_turn_costs_the_same_however_long_the_chat_is(model: KeepingModel) -> None:
    chat = card_chat()
    counted = [queries(chat, number) for number in range(1, 41)]
    assert len(set(counted[5:])) == 1
    assert brief_of(chat).token_count < 200
