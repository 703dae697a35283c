"""When a cluster is frozen, and when it is only busy, slow, or out of reach."""

from __future__ import annotations

import pytest

from memory.worker.liveness import (
    LONGEST_PAUSE,
    Facts,
    LivenessCheck,
    LivenessStep,
    ProbeTimes,
    pause_before_start,
)

PATIENCE = ProbeTimes(every=5, answer=30, start=60)


class Cluster:
    """A cluster as the watchdog sees it, checked once a second by a simulated clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.sent = self.done = self.acknowledged = 0
        self.all_busy = False
        self.vigil = LivenessCheck(PATIENCE, self.now, self.facts)

    @property
    def facts(self) -> Facts:
        return Facts(self.done, self.acknowledged, self.all_busy)

    def look(self) -> LivenessStep:
        """Advance the clock by a second and check."""
        self.now += 1
        step = self.vigil.look(self.now, self.facts)
        if step is LivenessStep.SEND:
            self.sent += 1
            self.vigil.sent(self.now)
        return step

    def answer(self) -> None:
        self.done = self.acknowledged = self.sent

    def live(self, seconds: int) -> list[LivenessStep]:
        """Check for `seconds` seconds, answering every canary."""
        steps = []
        for _ in range(seconds):
            steps.append(self.look())
            self.answer()
        return steps

    def seconds_until(self, wanted: LivenessStep, most: int = 500) -> int:
        """Return the seconds until that step. Raises if it does not come within `most` seconds."""
        return next(second for second in range(1, most) if self.look() is wanted)


def test_a_living_cluster_is_sent_a_canary_every_few_seconds() -> None:
    steps = Cluster().live(60)
    assert steps.count(LivenessStep.SEND) == 60 // PATIENCE.every
    assert set(steps) == {LivenessStep.SEND, LivenessStep.WAIT}


@pytest.mark.parametrize("stops", ["taking tasks", "acknowledging"])
def test_a_cluster_that_stops_is_replaced_within_its_patience(stops: str) -> None:
    cluster = Cluster()
    cluster.live(30)
    if stops == "acknowledging":
        cluster.seconds_until(LivenessStep.SEND)
        cluster.done = cluster.sent
    assert 28 <= cluster.seconds_until(LivenessStep.REPLACE) <= PATIENCE.every + PATIENCE.answer + 1
    assert cluster.vigil.is_unacknowledged is (stops == "acknowledging")


def test_canaries_run_in_vain_do_not_excuse_that_nothing_is_acknowledged() -> None:
    cluster = Cluster()
    cluster.live(30)

    def look() -> LivenessStep:
        step = cluster.look()
        cluster.done = cluster.sent
        return step

    assert any(look() is LivenessStep.REPLACE for _ in range(40))


def test_a_cluster_whose_workers_are_all_busy_is_not_frozen() -> None:
    """However long: the queue itself ends a task that takes too long, and then the cluster is no longer busy."""
    cluster = Cluster()
    cluster.live(10)
    cluster.all_busy = True
    steps = [cluster.look() for _ in range(300)]
    assert LivenessStep.REPLACE not in steps
    assert 300 // 5 - 5 <= steps.count(LivenessStep.MARK_ALIVE) <= 300 // 5
    cluster.all_busy = False
    assert cluster.seconds_until(LivenessStep.REPLACE) == PATIENCE.answer


def test_being_busy_does_not_excuse_that_nothing_is_acknowledged() -> None:
    cluster = Cluster()
    cluster.live(30)
    cluster.seconds_until(LivenessStep.SEND)
    cluster.done = cluster.sent
    cluster.all_busy = True
    assert cluster.seconds_until(LivenessStep.REPLACE) <= PATIENCE.answer + 1


def test_a_canary_that_is_lost_is_sent_again() -> None:
    cluster = Cluster()
    cluster.live(30)
    cluster.seconds_until(LivenessStep.SEND)
    assert cluster.seconds_until(LivenessStep.SEND) == PATIENCE.answer / 3
    assert set(cluster.live(100)) == {LivenessStep.SEND, LivenessStep.WAIT}


def test_a_new_cluster_has_its_time_to_start() -> None:
    assert Cluster().seconds_until(LivenessStep.REPLACE) == PATIENCE.start + 1


def test_while_nobody_could_look_it_could_not_answer() -> None:
    """The database was unreachable, or the whole machine was suspended."""
    cluster = Cluster()
    cluster.live(30)
    cluster.seconds_until(LivenessStep.SEND)
    cluster.now += 1000
    assert cluster.look() is not LivenessStep.REPLACE
    assert cluster.seconds_until(LivenessStep.REPLACE) == PATIENCE.answer


def test_one_that_dies_at_once_again_and_again_is_started_ever_more_rarely() -> None:
    pauses = [pause_before_start(failures) for failures in range(9)]
    assert pauses == [0, 1, 2, 4, 8, 16, LONGEST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE]
    assert pause_before_start(10**6) == LONGEST_PAUSE


def test_while_no_canary_can_be_sent_the_cluster_is_left_alone() -> None:
    """While the queue is down, the cluster has nothing to answer. Its patience restarts once a canary can be sent."""
    cluster = Cluster()
    cluster.live(30)
    cluster.seconds_until(LivenessStep.SEND)  # lost with the queue
    for _ in range(10 * int(PATIENCE.answer)):
        cluster.now += 1
        step = cluster.vigil.look(cluster.now, cluster.facts)
        assert step in (LivenessStep.WAIT, LivenessStep.SEND)
        if step is LivenessStep.SEND:
            cluster.vigil.not_sent(cluster.now)
    assert cluster.seconds_until(LivenessStep.SEND) == 1
    assert cluster.seconds_until(LivenessStep.REPLACE) >= PATIENCE.answer - 1
