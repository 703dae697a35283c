"""The policy `card` through the engine: replies fold, and the summarizer folds only what no reply saw in full.

Also cards that race with folds, changes and regenerated answers; and what a card costs its turn.
"""

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
from memory.context.build import preview
from memory.folding.request import request_resummarize
from memory.models import ContextRecord
from memory.policies.card import CONTEXT
from tests.support.cards import begin, card_chat, card_of, finish, kept_codes, live, marks
from tests.support.factories import add_turns, brief_of
from tests.support.fakes.scripted import KeepingModel
from tests.support.folds import (
    DOWN,
    asked_codes,
    fail_until_given_up,
    revisions,
    run_fold,
    together,
    turn,
    wait_over,
)

pytestmark = pytest.mark.usefixtures("roomy", "sound")


# Replies fold


def test_each_card_folds_the_turn_before_its_own(model: KeepingModel) -> None:
    chat = card_chat()
    for number in range(1, 8):
        live(chat, number)
    brief = brief_of(chat)
    assert (brief.version, brief.folded_through_seq, brief.seen_seq, unfolded(brief).turns) == (7, 12, 14, 1)
    assert card_of(chat) == {"decisions": ["keep T7"]}, "replaced, not appended"
    rows = revisions(chat)
    spans = [(row.from_seq, row.through_seq, row.seen_seq) for row in rows[:3]]
    assert spans == [(1, 0, 2), (1, 2, 4), (3, 4, 6)]
    assert {(row.model, row.kind, float(row.cost_usd or 0)) for row in rows} == {("gpt-test", "fold", 0.0)}
    assert rows[2].retained["lost"], "what the card does not hold of the turn is said"
    assert brief.last_summarized_message == Message.objects.get(chat=chat, seq=12)
    assert not brief.due
    assert run_fold(chat).outcome == "idle"
    assert model.prompts == []


def test_a_window_of_more_turns_is_kept(model: KeepingModel) -> None:
    chat = card_chat(window_turns=3)
    for number in range(1, 8):
        live(chat, number)
    assert (brief_of(chat).folded_through_seq, unfolded(brief_of(chat)).turns) == (8, 3)


def test_a_giant_turn_is_known_to_its_own_card(model: KeepingModel) -> None:
    """It is clipped in the next prompt, but its own reply saw all of it."""
    chat = card_chat()
    live(chat, 1, times=40)
    live(chat, 2)
    assert ContextRecord.objects.get(reply__chat=chat, reply__seq=4).clipped
    assert (brief_of(chat).folded_through_seq, unfolded(brief_of(chat)).turns) == (2, 1)


def test_a_giant_turn_without_a_card_waits_for_the_summarizer(model: KeepingModel) -> None:
    chat = card_chat()
    live(chat, 1, "no JSON", times=40)
    live(chat, 2)
    assert (card_of(chat), brief_of(chat).folded_through_seq) == ({"decisions": ["keep T2"]}, 0)
    live(chat, 3)
    assert brief_of(chat).folded_through_seq == 0, "it is a line now"
    kinds = [section["kind"] for section in ContextRecord.objects.get(reply__seq=6).sections]
    assert kinds[:3] == ["instructions", "card", "outline"]
    request_resummarize(chat, "update")
    model.lines = [kept_codes]
    run_fold(chat)
    brief = brief_of(chat)
    assert (brief.folded_through_seq, brief.seen_seq) == (4, 6), "what it knew of later turns it still knows"
    assert card_of(chat) == {"goal": "T3 T1 T2", "techniques": ["folded"], "decisions": ["keep T3"]}
    assert "the card is right" in model.prompts[0].instructions


def test_a_model_that_never_writes_a_card_is_helped_by_the_summarizer(model: KeepingModel) -> None:
    """The engine's own rule applies: the chat is due when its lines no longer fit, and no turn is lost on the way."""
    chat = card_chat()
    model.lines = [kept_codes] * 20
    folded = []
    for number in range(1, 31):
        live(chat, number, "", times=2)
        preview(chat)
        if run_fold(chat).published:
            folded.append(number)
    assert folded, "it became due"
    assert folded[0] > 12
    assert brief_of(chat).folded_through_seq >= 2 * (folded[-1] - 1)
    assert marks(chat) == ["missing"] * 30
    assert asked_codes(model)[0] == [f"T{number}" for number in range(1, folded[0])]
    assert f"T{folded[-1] - 1}" in card_of(chat)["goal"]


# Imports, switching, rebuilding


def test_a_long_import_is_folded_by_the_summarizer_and_cards_go_on_from_there(model: KeepingModel) -> None:
    chat = card_chat()
    add_turns(chat, [turn(number, 20) for number in range(1, 61)])
    model.lines = [kept_codes] * 5
    assert brief_of(chat).due
    run_fold(chat)
    brief = brief_of(chat)
    assert (brief.folded_through_seq, unfolded(brief).turns) == (118, 1)
    live(chat, 61)
    assert (brief_of(chat).folded_through_seq, unfolded(brief_of(chat)).turns) == (120, 1)
    assert card_of(chat)["techniques"] == ["folded"]


def test_turns_that_were_lines_in_the_prompt_are_not_taken_for_known(model: KeepingModel) -> None:
    chat = card_chat()
    add_turns(chat, [turn(number, 20) for number in range(1, 31)])
    live(chat, 31)
    assert "lines" in {section["kind"] for section in ContextRecord.objects.get(reply__chat=chat).sections}
    assert (brief_of(chat).folded_through_seq, brief_of(chat).seen_seq) == (0, 62)
    assert card_of(chat) == {"decisions": ["keep T31"]}


def test_rebuild_of_cards_asks_summarizer(model: KeepingModel) -> None:
    chat = card_chat()
    for number in range(1, 6):
        live(chat, number)
    request_resummarize(chat, "rebuild")
    model.lines = [kept_codes]
    run_fold(chat)
    brief = brief_of(chat)
    assert card_of(chat) == {"goal": "T1 T2 T3 T4", "techniques": ["folded"]}
    assert (brief.folded_through_seq, brief.seen_seq, unfolded(brief).turns) == (8, 8, 1)
    live(chat, 6)
    assert card_of(chat) == {"goal": "T1 T2 T3 T4", "techniques": ["folded"], "decisions": ["keep T6"]}


# The summarizer fails


def test_a_replys_card_is_no_answer_of_the_summarizers(model: KeepingModel) -> None:
    """A reply's card clears neither the summarizer's failures nor the need to redo the built-in summarizer's work."""
    chat = card_chat()
    add_turns(chat, [turn(number, 20) for number in range(1, 40)])
    model.lines = [DOWN]
    run_fold(chat)
    live(chat, 40)
    brief = brief_of(chat)
    assert brief.attempts == 1
    assert brief.last_error is not None
    assert brief.next_attempt_at is not None
    fail_until_given_up(chat, model)
    assert brief_of(chat).degraded
    live(chat, 41)
    assert brief_of(chat).degraded
    assert revisions(chat)[-1].degraded
    model.lines = [kept_codes] * 3
    wait_over(chat)
    run_fold(chat)
    assert not brief_of(chat).degraded
    assert "T40" in card_of(chat)["goal"]


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
    together(lambda: run_fold(chat), lambda: finish(begun, "T40 answered", {"decisions": ["keep T40"]}))
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
