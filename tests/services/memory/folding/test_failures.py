"""Folding when the summarizer fails: memory stays, retries wait, and the built-in one takes over until it recovers."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from chatmemory.llm import registry
from chatmemory.llm.protocol import Completion, ReplyError, UpstreamError
from memory.models import ConversationBrief
from tests.support.exhaustive import first_row_of
from tests.support.factories import add_turns, brief_of
from tests.support.fakes.scripted import KeepingModel, ScriptedModel
from tests.support.folds import (
    DOWN,
    Killed,
    assert_folded,
    chat_of,
    fail_until_given_up,
    revisions,
    run_fold,
    turn,
    wait_over,
)

pytestmark = pytest.mark.usefixtures("sound")


@pytest.mark.parametrize(
    ("line", "code"),
    first_row_of(
        [
            (DOWN, "upstream_error"),
            (UpstreamError(ReplyError("upstream_timeout", "It took too long.")), "upstream_timeout"),
            ("", "empty"),
            (Completion("half a summ", model="m", truncated=True), "truncated"),
            (Completion("", model="m", refused=True), "refused"),
            ("I'm sorry, but I can't help with that.", "refused"),
            ("<html><body>502 Bad Gateway</body></html>", "error_text"),
        ],
        3,
    ),
)
def test_a_hard_fault_changes_nothing_and_waits(model: KeepingModel, line: Any, code: str) -> None:
    chat = chat_of(12)
    before = brief_of(chat)
    model.lines = [line]
    report = run_fold(chat)
    after = brief_of(chat)
    assert (report.outcome, report.error) == ("waiting", code)
    assert after.last_error is not None
    assert (after.last_error["code"], after.last_error["attempt"], after.attempts) == (code, 1, 1)
    assert set(after.last_error) == {"code", "message", "at", "attempt"}
    assert after.next_attempt_at is not None
    assert 5 < (after.next_attempt_at - timezone.now()).total_seconds() < 12
    untouched = ("global_summary", "version", "head", "folded_through_seq", "due", "updated_at")
    assert [getattr(after, name) for name in untouched] == [getattr(before, name) for name in untouched]
    assert run_fold(chat).outcome == "waiting"
    assert len(model.prompts) == 1


def test_fold_after_a_prompt_that_was_too_long_asks_with_fewer_turns(model: KeepingModel) -> None:
    chat = chat_of(12)
    too_long = UpstreamError(ReplyError("context_length_exceeded", "Too long."))
    model.lines = [too_long]
    run_fold(chat)
    wait_over(chat)
    assert run_fold(chat).outcome == "done"
    assert [len(turns) for _, turns in model.inputs] == [3, 1, 3, 3, 2]
    assert_folded(chat, through=9)


@pytest.mark.promise("P12")
def test_after_five_failures_the_built_in_summarizer_folds_in_its_place(model: KeepingModel) -> None:
    chat = chat_of(12)
    fail_until_given_up(chat, model)
    brief, rows = brief_of(chat), revisions(chat)
    assert brief.degraded
    assert not brief.due
    assert rows
    assert all(row.degraded and row.model == "offline" and row.cost_usd == 0 for row in rows)
    assert brief.attempts == 5
    assert brief.last_error is not None
    assert brief.next_attempt_at is not None
    assert brief.next_attempt_at > timezone.now() + timedelta(seconds=100)


def test_built_in_failure_ends_the_task(model: KeepingModel, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = chat_of(12)
    ConversationBrief.objects.filter(chat=chat).update(attempts=5)
    builtin = ScriptedModel("")
    with monkeypatch.context() as patch:
        patch.setattr(registry, "offline_model", lambda: builtin)
        assert run_fold(chat).outcome == "waiting"
    assert (len(builtin.prompts), brief_of(chat).version) == (1, 0)
    assert run_fold(chat).outcome == "done"


def test_when_its_wait_is_over_the_upstream_is_asked_once_then_left_alone_again(model: KeepingModel) -> None:
    chat = chat_of(12)
    fail_until_given_up(chat, model)
    calls = len(model.prompts)
    add_turns(chat, [turn(number) for number in range(13, 25)])
    wait_over(chat)
    model.lines = [DOWN]
    run_fold(chat)
    assert len(model.prompts) == calls + 1
    brief = brief_of(chat)
    assert (brief.attempts, brief.degraded, brief.due) == (6, True, False)


def test_a_recovery_that_fails_leaves_the_memory_and_waits(model: KeepingModel) -> None:
    chat = chat_of(12)
    fail_until_given_up(chat, model)
    before = brief_of(chat)
    wait_over(chat)
    model.lines = [lambda prompt: "T1 T2 T3", DOWN]
    assert run_fold(chat).outcome == "waiting"
    after = brief_of(chat)
    assert (after.version, after.global_summary, after.degraded) == (
        before.version,
        before.global_summary,
        True,
    )
    assert after.rebuild is not None
    wait_over(chat)
    assert run_fold(chat).outcome == "done"
    assert_folded(chat, through=9)


@pytest.mark.promise("P12")
def test_attempts_that_killed_their_worker_count(model: KeepingModel) -> None:
    chat = chat_of(12)
    for number in range(1, 6):
        model.lines = [Killed()]
        wait_over(chat)
        with pytest.raises(Killed):
            run_fold(chat)
        assert brief_of(chat).attempts == number
        assert brief_of(chat).version == 0
    assert run_fold(chat).outcome == "done"
    assert all(row.degraded for row in revisions(chat))


def test_a_fault_of_our_own_is_written_down_and_raised(model: KeepingModel) -> None:
    chat = chat_of(12)
    model.lines = [RuntimeError("a bug")]
    with pytest.raises(RuntimeError, match="a bug"):
        run_fold(chat)
    brief = brief_of(chat)
    assert brief.last_error is not None
    assert (brief.last_error["code"], brief.attempts, brief.lease_owner) == ("internal", 1, "")
