"""The next step for a chat's memory, who takes it, and how long to wait after a failure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.folding.attempts import MAX_BACKOFF_SECONDS, NextStep, Work, backoff_seconds, next_step

UPSTREAM, BUILTIN = False, True
FLAGS = ("due", "rebuild_requested", "degraded", "given_up", "waiting", "delayed")
standings = st.fixed_dictionaries({flag: st.booleans() for flag in FLAGS})


def after(flags: str) -> NextStep:
    """The next step where these flags are set, and no others."""
    return next_step(**{flag: flag in flags.split() for flag in FLAGS})


@pytest.mark.parametrize(
    ("flags", "step"),
    [
        ("", NextStep(Work.NOTHING)),
        ("due", NextStep(Work.FOLD, UPSTREAM)),
        ("due waiting", NextStep(Work.WAIT)),
        # The fifth attempt failed or killed its worker: the built-in summarizer folds, whether the wait is over or not.
        ("due given_up waiting", NextStep(Work.FOLD, BUILTIN)),
        ("due given_up", NextStep(Work.FOLD, BUILTIN)),
        # The built-in summarizer has already stood in: the upstream gets a chance whenever the wait is over.
        ("due given_up degraded waiting", NextStep(Work.FOLD, BUILTIN)),
        ("due given_up degraded", NextStep(Work.FOLD, UPSTREAM)),
        # The owner's limits are exhausted: the chat waits, whichever summarizer is next.
        ("due delayed", NextStep(Work.WAIT)),
        ("rebuild_requested given_up delayed", NextStep(Work.WAIT)),
        ("degraded delayed", NextStep(Work.WAIT)),
        ("delayed", NextStep(Work.NOTHING)),
        ("rebuild_requested", NextStep(Work.REBUILD, UPSTREAM)),
        ("due rebuild_requested", NextStep(Work.FOLD, UPSTREAM)),
        ("rebuild_requested given_up waiting", NextStep(Work.REBUILD, BUILTIN)),
        # Only the upstream replaces what the built-in summarizer folded.
        ("degraded", NextStep(Work.REBUILD, UPSTREAM)),
        ("degraded given_up", NextStep(Work.REBUILD, UPSTREAM)),
        ("degraded given_up waiting", NextStep(Work.NOTHING)),
        ("degraded waiting", NextStep(Work.WAIT)),
    ],
)
def test_the_next_step(flags: str, step: NextStep) -> None:
    assert after(flags) == step


@given(standings)
def test_a_chat_that_is_due_is_folded_or_waits_and_the_built_in_one_never_steps_in_early(now: dict[str, bool]) -> None:
    step = next_step(**now)
    if step.builtin:
        assert now["given_up"]
        assert step.work is Work.FOLD or (step.work is Work.REBUILD and now["rebuild_requested"]), "it never recovers"
    if now["due"]:
        assert step.work is Work.FOLD or (step.work is Work.WAIT and (not now["given_up"] or now["delayed"]))


def test_the_wait_doubles_up_to_ten_minutes() -> None:
    assert [backoff_seconds(attempt, 10) for attempt in range(1, 9)] == [10, 20, 40, 80, 160, 320, 600, 600]
    assert backoff_seconds(0, 10) == 10
    assert backoff_seconds(10**9, 0.01) == MAX_BACKOFF_SECONDS == 600
