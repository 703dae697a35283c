"""Restoring: an older version returns as a new one, folding goes on from there, and removed text stays out."""

import pytest

from chatmemory.errors import Conflict
from chatmemory.llm.protocol import Prompt
from conversations import message_changes
from conversations.chat_lifecycle import update_chat
from conversations.models import Message
from memory.briefs import unfolded
from memory.folding.request import request_resummarize
from memory.models import RevisionKind, SummaryRevision
from memory.revisions.by_hand import restore
from tests.support.cards import card_chat, live
from tests.support.factories import add_turns, brief_of, make_user
from tests.support.fakes.scripted import KeepingModel
from tests.support.folds import (
    asked,
    assert_folded,
    chat_of,
    fail_until_given_up,
    folded_chat,
    revisions,
    run,
    turn,
    wait_over,
)

pytestmark = pytest.mark.usefixtures("sound")


def test_an_older_version_is_made_current_as_a_new_one(model: KeepingModel) -> None:
    chat = folded_chat(model)
    before, calls = brief_of(chat), len(model.prompts)
    brief = restore(chat, 1, make_user())
    first, *_, last = revisions(chat)
    assert (last.version, last.parent, last.kind) == (4, 1, RevisionKind.RESTORE)
    assert (last.global_summary, last.state) == (first.global_summary, first.state)
    assert (last.from_seq, last.through_seq, last.turns) == (7, 6, 0)
    assert (last.tokens_before, last.tokens_after) == (before.token_count, first.tokens_after)
    assert (last.input_tokens, last.output_tokens, last.duration_ms) == (0, 0, 0)
    assert last.cost_usd == 0
    assert (last.model, last.prompt_hash, last.retained) == (first.model, first.prompt_hash, first.retained)
    assert last.created_by == make_user()
    assert (brief.version, brief.head, brief.epoch) == (4, 4, before.epoch + 1)
    assert (brief.folded_through_seq, unfolded(brief).turns) == (6, 9)
    assert brief.last_summarized_message == Message.objects.get(chat=chat, seq=6)
    assert len(model.prompts) == calls
    assert brief_of(chat).global_summary == first.global_summary


def test_folding_goes_on_from_where_the_restored_version_ends(model: KeepingModel) -> None:
    chat = folded_chat(model)
    calls = len(model.prompts)
    restore(chat, 1)
    request_resummarize(chat, "update")
    assert run(chat).outcome == "done"
    assert asked(model)[calls:] == [["T4", "T5", "T6"], ["T7", "T8", "T9"]]
    assert_folded(chat, through=9)
    assert [row.parent for row in revisions(chat)] == [None, 1, 2, 1, 4, 5]


def test_a_rebuild_under_way_is_dropped_for_it(model: KeepingModel) -> None:
    chat = folded_chat(model)
    request_resummarize(chat, "rebuild")

    def meanwhile(prompt: Prompt) -> str:
        restore(chat, 3)
        return "T1 T2 T3"

    model.lines = [meanwhile]
    run(chat)
    brief = brief_of(chat)
    assert (brief.requested, brief.rebuild) == ("", None)
    assert [row.kind for row in revisions(chat)][3:] == [RevisionKind.RESTORE]
    assert_folded(chat, through=9)


def test_nothing_comes_back_that_was_edited_or_deleted(model: KeepingModel) -> None:
    chat = folded_chat(model)
    question = Message.objects.get(chat=chat, seq=7)
    message_changes.edit_message(chat, question.pk, "T4 was not this")
    message_changes.forget_message(chat.pk, question.pk)
    assert revisions(chat)[-1].kind == RevisionKind.RETRACT
    for version in (2, 3):
        with pytest.raises(Conflict, match=f"The texts of version {version} were deleted"):
            restore(chat, version)
    assert restore(chat, 1).global_summary == revisions(chat)[0].global_summary


def test_nothing_comes_back_of_an_answer_that_was_replaced(model: KeepingModel) -> None:
    """As if the turn had been folded before its reply was regenerated."""
    chat = folded_chat(model)
    first = Message.objects.get(chat=chat, seq=6)
    later = Message.objects.get(chat=chat, seq=14)
    Message.objects.filter(pk=first.pk).update(superseded_by=later)
    with pytest.raises(Conflict, match="Version 1 is based on a reply that was replaced"):
        restore(chat, 1)
    Message.objects.filter(pk=first.pk).update(superseded_by=None)
    assert restore(chat, 1).folded_through_seq == 6


def test_what_a_card_told_of_before_its_turn_was_folded_counts_too(model: KeepingModel) -> None:
    chat = card_chat()
    for number in range(1, 5):
        live(chat, number)
    second = revisions(chat)[1]
    assert second.seen_seq == 4 > second.through_seq
    replies = Message.objects.filter(chat=chat, role="assistant").order_by("seq")
    replies.filter(seq=4).update(superseded_by=replies[3])
    with pytest.raises(Conflict):
        restore(chat, 2)
    replies.filter(seq=4).update(superseded_by=None)
    assert restore(chat, 2).seen_seq == 4


def test_it_keeps_the_policy_of_the_version_until_the_next_rebuild(model: KeepingModel) -> None:
    chat = folded_chat(model)
    update_chat(chat, {"policy": "interval"})
    run(chat)
    assert brief_of(chat).policy == "interval"
    restore(chat, 3)
    brief = brief_of(chat)
    assert (brief.policy, brief.chat.policy, brief.requested) == ("chunked", "interval", "")
    add_turns(chat, [turn(number) for number in range(13, 30)])
    run(chat)
    assert (brief_of(chat).policy, revisions(chat)[-1].policy) == ("chunked", "chunked")
    request_resummarize(brief.chat, "rebuild")
    run(chat)
    assert (brief_of(chat).policy, revisions(chat)[-1].policy) == ("interval", "interval")


def test_a_version_of_a_policy_that_is_no_more(model: KeepingModel) -> None:
    chat = folded_chat(model)
    SummaryRevision.objects.filter(chat=chat, version=1).update(policy="gone")
    with pytest.raises(Conflict, match="policy that no longer exists"):
        restore(chat, 1)


def test_what_the_built_in_summarizer_made_stays_when_somebody_chose_it(model: KeepingModel) -> None:
    chat = chat_of(5)
    request_resummarize(chat, "update")
    fail_until_given_up(chat, model)
    assert revisions(chat)[-1].degraded
    restore(chat, revisions(chat)[-1].version)
    wait_over(chat)
    run(chat)
    last = revisions(chat)[-1]
    assert (last.kind, last.degraded, brief_of(chat).degraded) == (RevisionKind.RESTORE, True, False)
