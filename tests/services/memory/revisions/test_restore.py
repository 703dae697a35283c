"""Restoring: an older version returns as a new one, folding goes on from there, and removed text stays out; and a
pause, in which a restored or edited summary stays in use, and no newer turn is left out."""

from typing import Any

import pytest

from chatmemory.errors import Conflict, NotFound
from chatmemory.llm.protocol import Prompt
from conversations import message_changes
from conversations.chat_lifecycle import delete_chat, update_chat
from conversations.models import Chat, Message
from memory.briefs import unfolded
from memory.context.build import preview
from memory.folding.fold import FoldReport
from memory.folding.request import request_resummarize
from memory.models import ConversationBrief, RevisionKind, SummaryRevision
from memory.revisions.by_hand import clear, edit_by_hand, pause_updates, restore, resume_updates
from memory.worker.sweep import sweep
from tests.support.cards import card_chat, live
from tests.support.factories import add_turn, add_turns, brief_of, make_user
from tests.support.fakes.scripted import KeepingModel
from tests.support.folds import (
    asked_codes,
    assert_folded,
    chat_of,
    fail_until_given_up,
    folded_chat,
    revisions,
    run_fold,
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
    assert run_fold(chat).outcome == "done"
    assert asked_codes(model)[calls:] == [["T4", "T5", "T6"], ["T7", "T8", "T9"]]
    assert_folded(chat, through=9)
    assert [row.parent for row in revisions(chat)] == [None, 1, 2, 1, 4, 5]


def test_a_rebuild_under_way_is_dropped_for_it(model: KeepingModel) -> None:
    chat = folded_chat(model)
    request_resummarize(chat, "rebuild")

    def meanwhile(prompt: Prompt) -> str:
        restore(chat, 3)
        return "T1 T2 T3"

    model.lines = [meanwhile]
    run_fold(chat)
    brief = brief_of(chat)
    assert (brief.requested, brief.rebuild) == ("", None)
    assert [row.kind for row in revisions(chat)][3:] == [RevisionKind.RESTORE]
    assert_folded(chat, through=9)


def test_restore_brings_back_no_edited_or_deleted_text(model: KeepingModel) -> None:
    chat = folded_chat(model)
    question = Message.objects.get(chat=chat, seq=7)
    message_changes.edit_message(chat, question.pk, "T4 was not this")
    message_changes.forget_message(chat.key, question.pk)
    assert revisions(chat)[-1].kind == RevisionKind.RETRACT
    for version in (2, 3):
        with pytest.raises(Conflict, match=f"The texts of version {version} were deleted"):
            restore(chat, version)
    assert restore(chat, 1).global_summary == revisions(chat)[0].global_summary


def test_restore_brings_back_no_replaced_answer(model: KeepingModel) -> None:
    """As if the turn had been folded before its reply was regenerated."""
    chat = folded_chat(model)
    first = Message.objects.get(chat=chat, seq=6)
    later = Message.objects.get(chat=chat, seq=14)
    Message.objects.filter(pk=first.pk).update(superseded_by=later)
    with pytest.raises(Conflict, match="Version 1 is based on a reply that was replaced"):
        restore(chat, 1)
    Message.objects.filter(pk=first.pk).update(superseded_by=None)
    assert restore(chat, 1).folded_through_seq == 6


def test_restore_counts_cards_before_their_fold(model: KeepingModel) -> None:
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


def test_restore_keeps_policy_until_next_rebuild(model: KeepingModel) -> None:
    chat = folded_chat(model)
    update_chat(chat, {"policy": "interval"})
    run_fold(chat)
    assert brief_of(chat).policy == "interval"
    restore(chat, 3)
    brief = brief_of(chat)
    assert (brief.policy, brief.chat.policy, brief.requested) == ("chunked", "interval", "")
    add_turns(chat, [turn(number) for number in range(13, 30)])
    run_fold(chat)
    assert (brief_of(chat).policy, revisions(chat)[-1].policy) == ("chunked", "chunked")
    request_resummarize(brief.chat, "rebuild")
    run_fold(chat)
    assert (brief_of(chat).policy, revisions(chat)[-1].policy) == ("interval", "interval")


def test_a_version_of_a_policy_that_is_no_more(model: KeepingModel) -> None:
    chat = folded_chat(model)
    SummaryRevision.objects.filter(chat=chat, version=1).update(policy="gone")
    with pytest.raises(Conflict, match="policy that no longer exists"):
        restore(chat, 1)


def test_restore_of_built_in_version_stays(model: KeepingModel) -> None:
    chat = chat_of(5)
    request_resummarize(chat, "update")
    fail_until_given_up(chat, model)
    assert revisions(chat)[-1].degraded
    restore(chat, revisions(chat)[-1].version)
    wait_over(chat)
    run_fold(chat)
    last = revisions(chat)[-1]
    assert (last.kind, last.degraded, brief_of(chat).degraded) == (RevisionKind.RESTORE, True, False)


# A pause


def queued(chat: Chat) -> bool:
    return brief_of(chat).queued_at is not None


def worked(chat: Chat) -> FoldReport:
    """Run the sweep, then the chat's task, as a worker does."""
    sweep()
    return run_fold(chat)


def test_restored_version_stays_while_chat_goes_on(model: KeepingModel) -> None:
    chat = folded_chat(model)
    calls = len(model.prompts)
    ConversationBrief.objects.filter(chat=chat).update(queued_at=None)
    brief = restore(chat, 1, make_user(), pauses=True)
    assert (brief.due, brief.paused_by) == (False, make_user())
    assert brief.paused_at is not None
    add_turns(chat, [turn(number) for number in range(13, 25)])
    assert worked(chat).outcome == "idle"
    brief = brief_of(chat)
    assert (brief.due, brief.head, unfolded(brief).turns) == (False, 4, 21)
    assert brief.global_summary == revisions(chat)[0].global_summary
    assert (len(model.prompts), queued(chat)) == (calls, False)


@pytest.mark.parametrize("mode", ["update", "rebuild"])
def test_request_update_resumes_paused_memory(model: KeepingModel, mode: Any) -> None:
    chat = folded_chat(model)
    restore(chat, 1, pauses=True)
    request_resummarize(chat, mode)
    assert brief_of(chat).paused_at is None
    assert run_fold(chat).outcome == "done"
    assert_folded(chat, through=9)


def test_pause_drops_running_fold(model: KeepingModel) -> None:
    chat = chat_of(12)

    def meanwhile(prompt: Prompt) -> str:
        pause_updates(chat, None)
        return "as if"

    model.lines = [meanwhile]
    request_resummarize(chat, "rebuild")
    report = run_fold(chat)
    assert (report.lost, report.published) == (1, 0)
    brief = brief_of(chat)
    assert (brief.due, brief.version, brief.requested) == (False, 0, "")


def test_a_chat_without_memory_and_one_that_is_gone(model: KeepingModel) -> None:
    chat = chat_of(0)
    ConversationBrief.objects.filter(chat=chat).delete()
    assert pause_updates(chat, None).paused_seq == 0
    delete_chat(chat)
    for act in (pause_updates, resume_updates):
        with pytest.raises(NotFound):
            act(chat, None)


def test_pause_keeps_built_in_version(model: KeepingModel) -> None:
    chat = chat_of(5)
    request_resummarize(chat, "update")
    fail_until_given_up(chat, model)
    assert brief_of(chat).degraded
    pause_updates(chat, None)
    wait_over(chat)
    assert worked(chat).outcome == "idle"
    resume_updates(chat, None)
    assert worked(chat).outcome == "done"
    assert not brief_of(chat).degraded


def test_an_edit_by_hand_holds_too(model: KeepingModel) -> None:
    chat = folded_chat(model)
    add_turns(chat, [turn(number) for number in range(13, 16)])
    edit_by_hand(chat, {"summary": "The heron."}, make_user(), on_version=3, pauses=True)
    add_turns(chat, [turn(number) for number in range(16, 26)])
    worked(chat)
    assert brief_of(chat).global_summary == "The heron."
    edit_by_hand(chat, {"summary": "The crane."}, make_user(), on_version=4)
    worked(chat)
    assert "T13" in brief_of(chat).global_summary


# Nothing is left out


def test_pause_ends_when_newer_turns_do_not_fit(model: KeepingModel, roomy: None, settings: Any) -> None:
    """A prompt has room for about 20 lines. Turns that waited before the pause are not counted."""
    settings.MEMORY_MIN_FOLD_TOKENS = 100
    chat = chat_of(30)
    request_resummarize(chat, "update")
    run_fold(chat)
    restore(chat, revisions(chat)[0].version, pauses=True)
    held = 0
    for number in range(31, 200):
        add_turn(chat, *turn(number))
        merged = preview(chat).plan.merged
        assert merged is None or merged.through_seq <= 60
        if brief_of(chat).due:
            break
        held += 1
    assert 10 < held < 60
    assert worked(chat).outcome == "done"
    brief = brief_of(chat)
    assert (brief.paused_at, brief.due) == (None, False)


def test_pause_does_not_end_for_turns_before_it(model: KeepingModel, settings: Any) -> None:
    """For example, a restored version may be followed by more turns than a prompt can show."""
    chat = chat_of(260)
    settings.MEMORY_FOLD_BITE_TOKENS = 1000
    settings.MEMORY_PROMPT_TOKEN_BUDGET = 1000
    request_resummarize(chat, "update")
    while run_fold(chat).outcome == "more":
        pass
    brief = restore(chat, 1, pauses=True)
    assert unfolded(brief).turns > 200
    assert not brief.due
    assert worked(chat).outcome == "idle"
    context = preview(chat)
    assert context.plan.unrepresented > 100  # counted, and found by recall
    asked = preview(chat, "What was T100 about?")
    assert any("T100" in section.text for section in asked.sections if section.kind == "recall")


@pytest.mark.exhaustive
def test_restore_without_recall_requires_all_to_fit(model: KeepingModel, settings: Any) -> None:
    chat = chat_of(60)
    update_chat(chat, {"options": {"recall": "off"}})
    settings.MEMORY_PROMPT_TOKEN_BUDGET = 1000
    request_resummarize(chat, "update")
    while run_fold(chat).outcome == "more":
        pass
    assert restore(chat, 1, pauses=True).due
    while worked(chat).outcome == "more":
        pass
    assert preview(chat).plan.unrepresented == 0
    assert brief_of(chat).paused_at is None


def test_no_card_is_asked_for_meanwhile(model: KeepingModel) -> None:
    chat = card_chat()
    live(chat, 1)
    live(chat, 2)
    held = brief_of(chat).global_summary
    pause_updates(chat, None)
    version = brief_of(chat).version
    question = preview(chat, "And now?")
    assert "memory_card" not in str(question.prompt)
    live(chat, 3)
    assert (brief_of(chat).global_summary, brief_of(chat).version) == (held, version)


# Policies


def test_a_new_policy_ends_a_pause(model: KeepingModel) -> None:
    chat = folded_chat(model)
    restore(chat, 3, pauses=True)
    update_chat(chat, {"policy": "interval"})
    assert brief_of(chat).paused_at is None
    run_fold(chat)
    assert brief_of(chat).policy == "interval"


# Clearing


def test_a_cleared_summary_begins_anew_and_one_restore_undoes_it(model: KeepingModel) -> None:
    chat = folded_chat(model)
    before = brief_of(chat)
    brief = clear(chat, make_user())
    last = revisions(chat)[-1]
    assert (last.kind, last.parent, last.created_by) == (RevisionKind.MANUAL, 3, make_user())
    assert (last.tokens_after, last.turns, last.retained["kept"]) == (0, 0, [])
    assert "T1" in last.retained["lost"]
    assert (brief.global_summary, brief.state, brief.token_count) == ("", {"version": 1, "data": {}}, 0)
    assert brief.folded_through_seq == before.folded_through_seq
    recalled = preview(chat, "What was T2 about?")
    assert any("T2" in section.text for section in recalled.sections if section.kind == "recall")
    add_turns(chat, [turn(number) for number in range(13, 22)])
    run_fold(chat)
    assert "T1 " not in brief_of(chat).global_summary
    assert "T10" in brief_of(chat).global_summary
    assert restore(chat, 3).global_summary == before.global_summary


def test_clear_without_summary_is_refused(model: KeepingModel) -> None:
    chat = chat_of(2)
    with pytest.raises(Conflict, match="no summary"):
        clear(chat, None)
    folded = folded_chat(model)
    clear(folded, None)
    with pytest.raises(Conflict, match="no summary"):
        clear(folded, None)
