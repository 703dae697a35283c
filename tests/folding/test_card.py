"""The policy `card` through the engine: replies fold, the summarizer only what no reply was shown in full."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from chatmemory.llm.protocol import Completion, Prompt, Reply
from conversations import finishing
from conversations import services as chats
from conversations.finishing import Ending
from conversations.models import ActiveReply, Chat, Message, Status
from conversations.services import Begun, TurnRequest, begin_regeneration, begin_turn, default_variant
from memory import services
from memory.models import Card, ContextRecord
from memory.policies.card import CONTEXT
from memory.requesting import request_resummarize
from tests.factories import add_turn, add_turns, brief_of, make_chat
from tests.fakes.scripted import KeepingModel, codes
from tests.folding.folds import (
    DOWN,
    WORDS,
    asked,
    assert_sound,
    fail_until_given_up,
    revisions,
    run,
    together,
    turn,
    wait_over,
)
from tests.invariants import check_all


@pytest.fixture(autouse=True)
def large_bites(settings: Any) -> None:
    """The usual budget, and bites of several turns."""
    settings.MEMORY_LIMITS = replace(settings.MEMORY_LIMITS, bite_tokens=6000, prompt_budget=1000)


@pytest.fixture(autouse=True)
def sound(db: None) -> Any:
    """Whatever a test did, every chat is in order."""
    yield
    check_all()


def card_chat(**options: Any) -> Chat:
    chat = make_chat(policy="card", options=options)
    brief = brief_of(chat)
    brief.options = options
    brief.save(update_fields=["options"])
    return chat


def begin(chat: Chat, question: str) -> Begun:
    begun = begin_turn(chat.owner, TurnRequest(message=question, variant=default_variant()), chat_id=chat.pk)
    assert isinstance(begun, Begun)
    return begun


def finish(begun: Begun, text: str, card: object, status: Any = "complete") -> Message:
    said = card if isinstance(card, str) else json.dumps(card)
    reply = finishing.finish(begun.pending, text, Ending.of(Reply(status, model="gpt-test", call=said)))
    assert reply is not None
    return reply


def live(chat: Chat, number: int, card: object = None, times: int = 1) -> Message:
    """Turn `number`, with a card that names its code unless another is given; `times` as long as usual."""
    question, answer = (f"{text} {WORDS * (times - 1)}" for text in turn(number))
    told = {"decisions": [f"keep T{number}"]} if card is None else card
    return finish(begin(chat, question), answer, told)


def card_of(chat: Chat) -> dict[str, Any]:
    """What the card says, but for what it does not."""
    data: dict[str, Any] = brief_of(chat).state.get("data", {})
    return {name: value for name, value in data.items() if value and name != "is_ahead"}


def marks(chat: Chat) -> list[str]:
    rows = ContextRecord.objects.filter(reply__chat=chat).order_by("reply__seq")
    return list(rows.values_list("card", flat=True))


def kept_codes(prompt: Prompt) -> str:
    """A summarizer's card of all codes that it was shown."""
    found = list(dict.fromkeys(codes(prompt.messages[0].content)))
    return json.dumps({"goal": " ".join(found[-12:]), "techniques": ["folded"]})


# Replies fold


def test_each_card_folds_the_turn_before_its_own(model: KeepingModel) -> None:
    chat = card_chat()
    for number in range(1, 8):
        live(chat, number)
    brief = brief_of(chat)
    assert (brief.version, brief.folded_through_seq, brief.seen_seq, brief.unfolded_turns) == (7, 12, 14, 1)
    assert card_of(chat) == {"decisions": ["keep T7"]}, "replaced, not appended"
    rows = revisions(chat)
    assert [(row.from_seq, row.through_seq, row.seen_seq) for row in rows[:3]] == [
        (1, 0, 2),
        (1, 2, 4),
        (3, 4, 6),
    ]
    assert {(row.model, row.kind, float(row.cost_usd or 0)) for row in rows} == {("gpt-test", "fold", 0.0)}
    assert rows[2].retained["lost"], "what the card does not hold of the turn is said"
    assert brief.last_summarized_message == Message.objects.get(chat=chat, seq=12)
    assert not brief.due
    assert run(chat).outcome == "idle"
    assert model.prompts == []
    assert_sound(chat)


def test_a_window_of_more_turns_is_kept(model: KeepingModel) -> None:
    chat = card_chat(window_turns=3)
    for number in range(1, 8):
        live(chat, number)
    assert (brief_of(chat).folded_through_seq, brief_of(chat).unfolded_turns) == (8, 3)


@pytest.mark.parametrize("bad", ["", "no JSON", {}, {"goal": 7.5, "decisions": "x"}])
def test_a_turn_whose_card_failed_stays_until_a_card_has_seen_it(model: KeepingModel, bad: object) -> None:
    chat = card_chat()
    live(chat, 1)
    live(chat, 2, {"goal": []} if bad == {"goal": 7.5, "decisions": "x"} else bad)
    assert (card_of(chat), brief_of(chat).unfolded_turns) == ({"decisions": ["keep T1"]}, 2)
    assert marks(chat) == ["kept", "missing" if bad == "" else "malformed"]
    live(chat, 3)
    assert (brief_of(chat).folded_through_seq, brief_of(chat).unfolded_turns) == (4, 1)
    assert revisions(chat)[-1].turns == 2


@pytest.mark.parametrize("status", ["incomplete", "failed"])
def test_only_a_complete_reply_is_believed(model: KeepingModel, status: str) -> None:
    chat = card_chat()
    finish(begin(chat, "T1 asked"), "half an ans" if status == "incomplete" else "", {"goal": "x"}, status)
    assert (card_of(chat), marks(chat), brief_of(chat).version) == ({}, ["missing"], 0)


def test_a_giant_turn_is_known_to_its_own_card(model: KeepingModel) -> None:
    """It is clipped in the next prompt; its own reply had all of it."""
    chat = card_chat()
    live(chat, 1, times=40)
    live(chat, 2)
    assert ContextRecord.objects.get(reply__chat=chat, reply__seq=4).clipped
    assert (brief_of(chat).folded_through_seq, brief_of(chat).unfolded_turns) == (2, 1)


def test_a_giant_turn_without_a_card_waits_for_the_summarizer(model: KeepingModel) -> None:
    chat = card_chat()
    live(chat, 1, "no JSON", times=40)
    live(chat, 2)
    assert (card_of(chat), brief_of(chat).folded_through_seq) == ({"decisions": ["keep T2"]}, 0)
    live(chat, 3)
    assert brief_of(chat).folded_through_seq == 0, "it is a line now"
    assert [section["kind"] for section in ContextRecord.objects.get(reply__seq=6).sections][:3] == [
        "instructions",
        "card",
        "outline",
    ]
    request_resummarize(chat, "update")
    model.lines = [kept_codes]
    run(chat)
    brief = brief_of(chat)
    assert (brief.folded_through_seq, brief.seen_seq) == (4, 6), (
        "what the state knew of later turns it still knows"
    )
    assert card_of(chat) == {"goal": "T3 T1 T2", "techniques": ["folded"], "decisions": ["keep T3"]}
    assert "the card is right" in model.prompts[0].instructions


def test_a_model_that_never_writes_a_card_is_helped_by_the_summarizer(model: KeepingModel) -> None:
    """The engine's own rule: due when lines run out of room, and nothing is lost on the way."""
    chat = card_chat()
    model.lines = [kept_codes] * 20
    folded = []
    for number in range(1, 31):
        live(chat, number, "", times=2)
        services.preview(chat)
        if run(chat).published:
            folded.append(number)
    assert folded, "it became due"
    assert folded[0] > 12
    assert brief_of(chat).folded_through_seq >= 2 * (folded[-1] - 1)
    assert marks(chat) == ["missing"] * 30
    assert asked(model)[0] == [f"T{number}" for number in range(1, folded[0])]
    assert f"T{folded[-1] - 1}" in card_of(chat)["goal"]


# Imports, switching, rebuilding


def test_a_long_import_is_folded_by_the_summarizer_and_cards_go_on_from_there(model: KeepingModel) -> None:
    chat = card_chat()
    add_turns(chat, [turn(number, 20) for number in range(1, 61)])
    model.lines = [kept_codes] * 5
    assert brief_of(chat).due
    run(chat)
    brief = brief_of(chat)
    assert (brief.folded_through_seq, brief.unfolded_turns) == (118, 1)
    live(chat, 61)
    assert (brief_of(chat).folded_through_seq, brief_of(chat).unfolded_turns) == (120, 1)
    assert card_of(chat)["techniques"] == ["folded"]


def test_turns_that_were_lines_in_the_prompt_are_not_taken_for_known(model: KeepingModel) -> None:
    chat = card_chat()
    add_turns(chat, [turn(number, 20) for number in range(1, 31)])
    live(chat, 31)
    assert "lines" in {section["kind"] for section in ContextRecord.objects.get(reply__chat=chat).sections}
    assert (brief_of(chat).folded_through_seq, brief_of(chat).seen_seq) == (0, 62)
    assert card_of(chat) == {"decisions": ["keep T31"]}


def test_switching_to_it_and_away_rebuilds_from_the_originals(model: KeepingModel) -> None:
    chat = make_chat()
    add_turns(chat, [turn(number) for number in range(1, 9)])
    run(chat)
    chat = chats.update_chat(chat, {"policy": "card"})
    model.lines = [kept_codes]
    run(chat)
    brief = brief_of(chat)
    assert (brief.policy, brief.folded_through_seq, brief.seen_seq) == ("card", 14, 14)
    assert card_of(chat)["goal"] == " ".join(f"T{number}" for number in range(1, 8))
    assert "What a later turn corrects" in model.prompts[-1].instructions
    live(chat, 9)
    assert brief_of(chat).folded_through_seq == 16
    chat = chats.update_chat(chat, {"policy": "chunked"})
    run(chat)
    assert list(dict.fromkeys(codes(brief_of(chat).global_summary))) == [f"T{n}" for n in range(1, 7)]


def test_a_rebuild_asks_the_summarizer_for_a_card_of_what_cards_had_told(model: KeepingModel) -> None:
    chat = card_chat()
    for number in range(1, 6):
        live(chat, number)
    request_resummarize(chat, "rebuild")
    model.lines = [kept_codes]
    run(chat)
    brief = brief_of(chat)
    assert card_of(chat) == {"goal": "T1 T2 T3 T4", "techniques": ["folded"]}
    assert (brief.folded_through_seq, brief.seen_seq, brief.unfolded_turns) == (8, 8, 1)
    live(chat, 6)
    assert card_of(chat) == {"goal": "T1 T2 T3 T4", "techniques": ["folded"], "decisions": ["keep T6"]}


# The summarizer fails


@pytest.mark.parametrize(
    "bad", [DOWN, "", "prose", '{"goal": 1.5e3, "decisions": 4', Completion("{}", "m", truncated=True)]
)
def test_a_hard_fault_leaves_the_card(model: KeepingModel, bad: Any) -> None:
    chat = card_chat()
    live(chat, 1)
    add_turns(chat, [turn(number, 20) for number in range(2, 40)])
    model.lines = [bad]
    assert run(chat).outcome == "failed"
    assert (card_of(chat), brief_of(chat).version) == ({"decisions": ["keep T1"]}, 1)
    wait_over(chat)
    model.lines = [kept_codes]
    assert run(chat).outcome == "done"
    assert "T38" in card_of(chat)["goal"]


def test_a_replys_card_is_no_answer_of_the_summarizers(model: KeepingModel) -> None:
    """What is known of its failures stands, and what the built-in one did is still to be made good."""
    chat = card_chat()
    add_turns(chat, [turn(number, 20) for number in range(1, 40)])
    model.lines = [DOWN]
    run(chat)
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
    run(chat)
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
    report = run(chat)
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
    run(chat)
    finish(begun, "T4 answered", {"decisions": ["keep T4"]})
    assert card_of(chat) == {"goal": "T1 T2", "techniques": ["folded"], "decisions": ["keep T4"]}
    assert brief_of(chat).folded_through_seq == 6


def test_messages_that_changed_while_a_reply_was_written_void_its_card(model: KeepingModel) -> None:
    chat = card_chat()
    live(chat, 1)
    begun = begin(chat, "T2 asked")
    services.messages_changed(chat.pk, from_seq=2)
    finish(begun, "T2 answered", {"goal": "what was taken out"})
    assert (card_of(chat), marks(chat)) == ({}, ["kept", "missing"])
    live(chat, 3)
    assert brief_of(chat).folded_through_seq == 4


def test_a_crash_before_the_end_leaves_no_card_and_the_turn_where_it_was(model: KeepingModel) -> None:
    chat = card_chat()
    live(chat, 1)
    begin(chat, "T2 asked")
    active = ActiveReply.objects.get(chat=chat)
    active.text = "T2 half an ans"
    reply = finishing.finish_abandoned(active)
    assert reply is not None
    assert (reply.status, marks(chat)) == (Status.INCOMPLETE, ["kept", "missing"])
    assert (card_of(chat), brief_of(chat).unfolded_turns) == ({"decisions": ["keep T1"]}, 2)


def test_a_reply_that_began_under_an_earlier_version_ends_without_a_card(model: KeepingModel) -> None:
    """Its record does not say whether a card was asked for."""
    chat = card_chat()
    begun = begin(chat, "T1 asked")
    del begun.pending.context["card_asked"], begun.pending.context["epoch"]
    finish(begun, "T1 answered", {"goal": "x"})
    assert (card_of(chat), marks(chat)) == ({}, [""])


@pytest.mark.django_db(transaction=True)
def test_a_card_and_a_fold_at_once_leave_both_in_order(model: KeepingModel) -> None:
    chat = card_chat()
    add_turns(chat, [turn(number, 20) for number in range(1, 40)])
    begun = begin(chat, "T40 asked")
    model.lines = [kept_codes] * 4
    together(lambda: run(chat), lambda: finish(begun, "T40 answered", {"decisions": ["keep T40"]}))  # type: ignore[arg-type]  # what they return is not wanted
    run(chat)
    assert card_of(chat)["decisions"] == ["keep T40"]
    assert "T39" in card_of(chat)["goal"]


# Answers that take the place of others


def regenerate(chat: Chat, reply: Message) -> Begun:
    begun = begin_regeneration(chat.owner, chat.pk, reply.pk, None)
    assert isinstance(begun, Begun)
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
    services.messages_changed(chat.pk, from_seq=third.seq)
    assert card_of(chat) == {"goal": "A"}, "not that of an answer that was replaced"


def test_a_second_answer_that_fails_leaves_everything(model: KeepingModel) -> None:
    chat = card_chat()
    live(chat, 1)
    first = live(chat, 2)
    finish(regenerate(chat, first), "", "", "failed")
    assert (card_of(chat), brief_of(chat).folded_through_seq) == ({"decisions": ["keep T2"]}, 2)


def test_a_cancelled_second_answer_takes_the_card_of_the_first_with_it(model: KeepingModel) -> None:
    chat = card_chat()
    live(chat, 1)
    first = live(chat, 2)
    begun = regenerate(chat, first)
    finishing.finish(begun.pending, "T2 half", Ending.cancelled())
    assert (card_of(chat), brief_of(chat).unfolded_turns) == ({"decisions": ["keep T1"]}, 2)


# What it costs


def queries(chat: Chat, number: int) -> int:
    begun = begin(chat, turn(number)[0])
    with CaptureQueriesContext(
        connection,
    ) as captured:
        finish(begun, turn(number)[1], {"decisions": [f"keep T{number}"]})
    return len(captured)


def test_a_turn_costs_the_same_however_long_the_chat_is(model: KeepingModel) -> None:
    chat = card_chat()
    counted = [queries(chat, number) for number in range(1, 41)]
    assert len(set(counted[5:])) == 1
    assert brief_of(chat).token_count < 200


def test_other_policies_pay_nothing_for_it(model: KeepingModel) -> None:
    chat = make_chat()
    live(chat, 1)
    begun = begin(chat, "T2 asked")
    assert not {"card_asked", "epoch"} & set(begun.pending.context)
    reply = _saved(begun)
    with CaptureQueriesContext(connection) as captured, transaction.atomic():
        services.turn_finished(reply, begun.pending.context, '{"goal": "x"}')
    statements = [row["sql"] for row in captured if "SAVEPOINT" not in row["sql"]]
    assert len(statements) <= 2, "the record, and where the verbatim part begins"
    assert marks(chat)[-1] == Card.NONE


def _saved(begun: Begun) -> Message:
    """The reply as `finish` saves it, the rest of finishing left out."""
    ActiveReply.objects.all().delete()
    question = begun.pending.user_message
    Chat.objects.filter(pk=begun.pending.chat_id).update(last_seq=begun.pending.seq)
    return Message.objects.create(
        id=begun.pending.message_id,
        chat_id=begun.pending.chat_id,
        seq=begun.pending.seq,
        role="assistant",
        content="T2 answered",
        status=Status.COMPLETE,
        token_count=3,
        line="T2 asked and answered",
        reply_to=question,
        created_at=question.created_at,
    )


def test_a_giant_message_in_the_way_is_only_counted(model: KeepingModel) -> None:
    chat = card_chat()
    add_turn(chat, "T1 " + WORDS * 100, "T1 " + WORDS * 100)
    live(chat, 2)
    assert (brief_of(chat).folded_through_seq, card_of(chat)) == (0, {"decisions": ["keep T2"]})
