"""The next step for a chat's memory, who takes it, and how long to wait after a failure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.folding.attempts import (
    MAX_BACKOFF_SECONDS,
    NextStep,
    Work,
    WorkState,
    backoff_seconds,
    next_step,
)

UPSTREAM, BUILTIN = False, True
standings = st.builds(
    WorkState,
    due=st.booleans(),
    rebuild_requested=st.booleans(),
    degraded=st.booleans(),
    attempts=st.integers(0, 20),
    waiting=st.booleans(),
    delayed=st.booleans(),
)


def standing(
    *,
    due: bool = False,
    rebuild: bool = False,
    degraded: bool = False,
    attempts: int = 0,
    waiting: bool = False,
    delayed: bool = False,
) -> WorkState:
    return WorkState(due, rebuild, degraded, attempts, waiting, delayed)


@pytest.mark.parametrize(
    ("now", "step"),
    [
        (standing(), NextStep(Work.NOTHING)),
        (standing(due=True), NextStep(Work.FOLD, UPSTREAM)),
        (standing(due=True, attempts=4), NextStep(Work.FOLD, UPSTREAM)),
        (standing(due=True, attempts=4, waiting=True), NextStep(Work.WAIT)),
        # The fifth attempt failed or killed its worker: the built-in summarizer folds, whether the wait is over or not.
        (standing(due=True, attempts=5, waiting=True), NextStep(Work.FOLD, BUILTIN)),
        (standing(due=True, attempts=5), NextStep(Work.FOLD, BUILTIN)),
        # The built-in summarizer has already stood in: the upstream gets a chance whenever the wait is over.
        (standing(due=True, attempts=5, degraded=True, waiting=True), NextStep(Work.FOLD, BUILTIN)),
        (standing(due=True, attempts=5, degraded=True), NextStep(Work.FOLD, UPSTREAM)),
        # The owner's limits are exhausted: the chat waits, whichever summarizer is next.
        (standing(due=True, delayed=True), NextStep(Work.WAIT)),
        (standing(rebuild=True, attempts=5, delayed=True), NextStep(Work.WAIT)),
        (standing(degraded=True, delayed=True), NextStep(Work.WAIT)),
        (standing(delayed=True), NextStep(Work.NOTHING)),
        (standing(rebuild=True), NextStep(Work.REBUILD, UPSTREAM)),
        (standing(due=True, rebuild=True), NextStep(Work.FOLD, UPSTREAM)),
        (standing(rebuild=True, attempts=5, waiting=True), NextStep(Work.REBUILD, BUILTIN)),
        # Only the upstream replaces what the built-in summarizer folded.
        (standing(degraded=True), NextStep(Work.REBUILD, UPSTREAM)),
        (standing(degraded=True, attempts=7), NextStep(Work.REBUILD, UPSTREAM)),
        (standing(degraded=True, attempts=7, waiting=True), NextStep(Work.NOTHING)),
        (standing(degraded=True, attempts=2, waiting=True), NextStep(Work.WAIT)),
    ],
)
def test_the_next_step(now: WorkState, step: NextStep) -> None:
    assert next_step(now, max_attempts=5) == step


@given(standings)
def test_the_built_in_one_never_steps_in_early_and_never_recovers(now: WorkState) -> None:
    step = next_step(now, max_attempts=5)
    if step.builtin:
        assert now.attempts >= 5
        assert step.work is Work.FOLD or (step.work is Work.REBUILD and now.rebuild_requested)


@given(standings)
def test_a_chat_that_is_due_is_folded_or_waits_for_one_of_a_few_attempts(now: WorkState) -> None:
    if now.due:
        work = next_step(now, max_attempts=5).work
        assert work is Work.FOLD or (work is Work.WAIT and (now.attempts < 5 or now.delayed))


def test_the_wait_doubles_up_to_ten_minutes() -> None:
    assert [backoff_seconds(attempt, 10) for attempt in range(1, 9)] == [10, 20, 40, 80, 160, 320, 600, 600]
    assert backoff_seconds(0, 10) == 10


@given(st.integers(0, 10**9), st.floats(0.01, 1000))
def test_no_wait_is_longer_than_ten_minutes(attempts: int, first: float) -> None:
    assert 0 < backoff_seconds(attempts, first) <= MAX_BACKOFF_SECONDS
