"""Rebuilds start at the first message, read the originals, can be resumed, and block no other chat."""

from typing import Any

import pytest
from django_q.models import OrmQ

from chatmemory.llm.protocol import Prompt
from conversations.message_changes import edit_message
from conversations.models import Message
from memory.briefs import unfolded
from memory.folding.answer_checks import source_hash
from memory.folding.fold import current_progress
from memory.folding.request import request_resummarize
from memory.history.rows import each_turn
from memory.models import RevisionKind
from tests.support.cards import card_chat, kept_codes, live
from tests.support.factories import add_turns, brief_of, make_chat
from tests.support.fakes.scripted import KeepingModel
from tests.support.folds import (
    Killed,
    asked_codes,
    assert_folded,
    chat_of,
    fail_until_given_up,
    revisions,
    run_fold,
    turn,
    wait_over,
)

pytestmark = [pytest.mark.usefixtures("sound"), pytest.mark.postgres]


def test_a_rebuild_folds_from_the_first_message_and_is_one_revision(model: KeepingModel) -> None:
    chat = chat_of(12)
    model.lines = ["a summary that drifted"] * 3
    run_fold(chat)
    folded, calls = revisions(chat), len(model.prompts)
    model.lines = []
    request_resummarize(chat, "rebuild")
    assert run_fold(chat).outcome == "done"
    assert_folded(chat, through=9)
    last = revisions(chat)[-1]
    assert len(revisions(chat)) == len(folded) + 1
    assert (last.kind, last.from_seq, last.through_seq, last.turns) == (RevisionKind.REBUILD, 1, 18, 9)
    assert last.parent == folded[-1].version
    assert last.source_hash == source_hash(each_turn(chat.key, 0, 19, text=True))
    assert last.input_tokens > max(row.input_tokens for row in folded)
    assert last.retained["share"] > 0
    assert [code for call in asked_codes(model)[calls:] for code in call] == [f"T{number}" for number in range(1, 10)]
    brief = brief_of(chat)
    assert (brief.requested, brief.rebuild) == ("", None)
    assert brief.last_summarized_message == Message.objects.get(chat=chat, seq=18)


def test_a_rebuild_goes_on_where_a_crash_ended_it(model: KeepingModel) -> None:
    chat = chat_of(12)
    run_fold(chat)
    assert current_progress(brief_of(chat)) is None
    before = brief_of(chat).global_summary
    request_resummarize(chat, "rebuild")
    assert current_progress(brief_of(chat)) == (0, None, 0)
    calls = len(model.prompts)
    model.lines = [lambda prompt: "T1 T2 T3", Killed()]
    with pytest.raises(Killed):
        run_fold(chat)
    assert brief_of(chat).rebuild["folded"]["through_seq"] == 6  # type: ignore[index]
    assert current_progress(brief_of(chat)) == (6, 18, 3)
    assert brief_of(chat).global_summary == before, "until it is done, the old memory is in use"
    wait_over(chat)
    assert run_fold(chat).outcome == "done"
    assert asked_codes(model)[calls:] == [
        ["T1", "T2", "T3"],
        ["T4", "T5", "T6"],
        ["T4", "T5", "T6"],
        ["T7", "T8", "T9"],
    ]
    assert current_progress(brief_of(chat)) is None
    assert_folded(chat, through=9)


def test_progress_is_thrown_away_when_something_was_taken_out(model: KeepingModel) -> None:
    chat = chat_of(12)
    run_fold(chat)
    request_resummarize(chat, "rebuild")

    def meanwhile(prompt: Prompt) -> str:
        edit_message(chat, Message.objects.get(chat=chat, seq=1).pk, "T1 edited")
        return "T1 SECRET"

    model.lines = [lambda prompt: "T1 T2 SECRET", meanwhile]
    assert run_fold(chat).outcome == "done"
    assert "SECRET" not in brief_of(chat).global_summary
    assert brief_of(chat).rebuild is None
    assert_folded(chat, through=brief_of(chat).folded_through_seq // 2)


def test_rebuild_after_given_up_upstream_uses_built_in(model: KeepingModel) -> None:
    chat = chat_of(5)
    request_resummarize(chat, "rebuild")
    fail_until_given_up(chat, model)
    brief, (last,) = brief_of(chat), revisions(chat)
    assert (last.kind, last.degraded) == (RevisionKind.REBUILD, True)
    assert (brief.degraded, brief.requested) == (True, "")


@pytest.mark.parametrize("mode", ["update", "rebuild"])
def test_request_for_a_chat_within_its_window_folds_nothing_and_is_done(model: KeepingModel, mode: Any) -> None:
    chat = chat_of(3)
    request_resummarize(chat, mode)
    assert run_fold(chat).outcome == "done"
    assert brief_of(chat).requested == ""
    assert model.prompts == []
    assert run_fold(chat).outcome == "idle"


def test_a_rebuild_with_a_larger_window_gives_turns_back(model: KeepingModel, settings: Any) -> None:
    chat = chat_of(12)
    request_resummarize(chat, "update")
    run_fold(chat)
    settings.MEMORY_K_RAW_TURNS = 20
    request_resummarize(chat, "rebuild")
    run_fold(chat)
    brief = brief_of(chat)
    assert (brief.global_summary, brief.folded_through_seq, unfolded(brief).turns) == ("", 0, 12)
    assert brief.last_summarized_message is None


def test_an_update_does_not_take_back_a_rebuild() -> None:
    chat = make_chat()
    request_resummarize(chat, "rebuild")
    request_resummarize(chat, "update")
    assert brief_of(chat).requested == "rebuild"


def test_memory_is_rebuilt_after_so_many_folds(model: KeepingModel, settings: Any) -> None:
    settings.MEMORY_REBUILD_EVERY_FOLDS = 2
    chat = chat_of(9)
    model.lines = ["a summary that drifted", "and lost T1", *["T1 T2 T3 T4 T5 T6"] * 2]
    request_resummarize(chat, "update")
    assert run_fold(chat).outcome == "done"
    last = revisions(chat)[-1]
    assert [row.kind for row in revisions(chat)] == [
        RevisionKind.FOLD,
        RevisionKind.FOLD,
        RevisionKind.REBUILD,
    ]
    assert (last.through_seq, brief_of(chat).requested) == (12, "")
    for number in range(10, 15):
        add_turns(chat, [turn(number)])
        request_resummarize(chat, "update")
        run_fold(chat)
    kinds = [str(row.kind) for row in revisions(chat)][3:]
    assert kinds == ["fold", "fold", "rebuild", "fold", "fold", "rebuild", "fold"]
    assert_folded(chat, through=11)


@pytest.mark.django_db(transaction=True)
def test_cards_of_replies_are_folds_too(model: KeepingModel, settings: Any) -> None:
    settings.MEMORY_REBUILD_EVERY_FOLDS = 3
    chat = card_chat()
    for number in range(1, 4):
        assert brief_of(chat).requested == ""
        live(chat, number)
    assert brief_of(chat).requested == "rebuild"
    queued = OrmQ.objects.all()
    assert [task.task["args"][0] for task in queued] == [str(chat.pk)]
    live(chat, 4)
    assert queued.count() == 1
    model.lines = [kept_codes] * 3
    assert run_fold(chat).outcome == "done"
    assert revisions(chat)[-1].kind == RevisionKind.REBUILD
