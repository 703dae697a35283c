"""The watchdog: runs a cluster of workers as a child and replaces it when it ends or freezes. Nothing outlives it.

The cluster has a process group of its own, whose members are tied to each other and to the watchdog, so that if any
of them is killed, all of them end. The database is queried in a thread: if it hangs, the watchdog still receives
signals and sees its child end. `memory.worker.liveness` decides whether a cluster has frozen.
"""

from __future__ import annotations

import importlib
import logging
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from django.conf import settings
from django.core.management import call_command

from chatmemory.database import fork_safety
from chatmemory.llm import registry
from chatmemory.runtime import forks, garbage, parent_death, process_id, processes
from chatmemory.runtime.processes import Child, Running
from chatmemory.runtime.threads import OneAtATime
from chatmemory.text import tokens
from memory.queue import UNAVAILABLE
from memory.worker import heartbeat, watches
from memory.worker.liveness import LivenessCheck, LivenessStep, ProbeTimes, pause_before_start

logger = logging.getLogger(__name__)

START_SECONDS = 60.0
"""The least time that a cluster is given to start, for a slow machine."""
FAREWELL_SECONDS = 2.0
"""Time for tidying up the tables at the end; what is left there does no harm."""


class Watchdog:
    """Watches one cluster after the other, as `name`."""

    def __init__(self) -> None:
        self.name = process_id.name()
        self._probe_times = ProbeTimes(
            settings.WORKER_CANARY_SECONDS, settings.WORKER_PATIENCE_SECONDS, START_SECONDS
        )
        self._tick = min(1.0, settings.WORKER_CANARY_SECONDS / 4)
        self._rounds = OneAtATime(self._round, "watch")
        self._cluster: Running | None = None
        self._check: LivenessCheck | None = None
        self._number = 0
        self._swept_at = 0.0
        self._is_blind = False

    def run(self, stopped: threading.Event) -> None:
        """Watch until `stopped`, then end the cluster. Call it in the main thread, to which the processes are tied."""
        parent_death.adopt()
        load()
        failures = 0
        while not stopped.wait(pause_before_start(failures)):
            failures = 0 if self._run_one(stopped) else failures + 1
        self._farewell()

    def _run_one(self, stopped: threading.Event) -> bool:
        """Run a cluster until it is over. Returns whether it ever answered."""
        self._check, self._swept_at = None, time.monotonic()
        self._cluster = cluster = _started(self.name)
        try:
            self._watch(cluster, stopped)
        finally:
            processes.end([cluster] if stopped.is_set() else [])
            cluster.kill_all()
        return self._has_answered()

    def _has_answered(self) -> bool:
        return self._check is not None and self._check.is_proven

    def _watch(self, cluster: Running, stopped: threading.Event) -> None:
        """Return when the cluster has ended or frozen, or when `stopped` is set."""
        pause = 0.0  # look at once, so that the first canary is queued before the cluster is up
        while not stopped.wait(pause):
            pause = self._tick
            if cluster.exit_code is not None:
                logger.error("the cluster ended by itself", extra={"code": cluster.exit_code})
                return
            if self._is_frozen():
                return

    def _is_frozen(self) -> bool:
        try:
            check, step = self._rounds.ask().result(timeout=self._tick)
        except TimeoutError:
            return False  # it is still looking
        except UNAVAILABLE as exc:
            if not self._is_blind:
                logger.warning(
                    "the database or the queue is not responding", extra={"error": type(exc).__name__}
                )
            self._is_blind = True
            return False
        self._is_blind = False
        if step is not LivenessStep.REPLACE or check is not self._check:  # belongs to another cluster
            return False
        symptom = "acknowledges nothing" if check.is_unacknowledged else "takes no task"
        logger.error("the cluster has frozen and is replaced", extra={"symptom": symptom})
        return True

    def _round(self) -> tuple[LivenessCheck, LivenessStep]:
        """Look, decide, and do what needs only the database and the queue. Runs in the thread."""
        facts = watches.look(self.name, self._is_running)
        if (check := self._check) is None:
            check = self._check = LivenessCheck(self._probe_times, time.monotonic(), facts)
        step = check.look(time.monotonic(), facts)
        if step is LivenessStep.SEND:
            self._send(check)
            self._sweep_if_late()
        elif step is LivenessStep.MARK_ALIVE:
            watches.mark_alive(self.name)
        return check, step

    def _send(self, check: LivenessCheck) -> None:
        self._number += 1
        try:
            watches.send(self.name, self._number)
        except UNAVAILABLE:
            check.not_sent(time.monotonic())
            raise
        check.sent(time.monotonic())

    def _sweep_if_late(self) -> None:
        if time.monotonic() - self._swept_at > settings.SWEEP_SECONDS + START_SECONDS:
            self._swept_at = time.monotonic()
            watches.sweep_if_late()

    def _is_running(self, pid: int) -> bool:
        """Whether that process belongs to the cluster."""
        try:
            return self._cluster is not None and os.getpgid(pid) == self._cluster.pid
        except ProcessLookupError:
            return False

    def _farewell(self) -> None:
        with suppress(TimeoutError, *UNAVAILABLE):
            OneAtATime(lambda: watches.end(self.name), "farewell").ask().result(timeout=FAREWELL_SECONDS)


def load() -> None:
    """Load what workers need, and exclude it from garbage collections, which would write to its memory pages."""
    importlib.import_module("memory.tasks")
    tokens.load()
    registry.load()
    garbage.freeze_existing()


def _started(watch: str) -> Running:
    """Start a cluster that writes its output where this process does, in a session of its own.

    It is forked, so it shares what is loaded here and starts at once. While a thread of the watchdog still waits for
    the database, forking is not safe, and a new interpreter is started instead, which loads everything anew.
    """
    fork_safety.close_all()
    if not forks.are_safe():
        return _executed(watch)
    title = f"worker {watch.rpartition(':')[2]}"
    patience = settings.WORKER_STOP_SECONDS
    return forks.start("cluster", partial(_run_cluster, watch), log=None, patience=patience, title=title)


def _run_cluster(watch: str) -> None:
    """Run the cluster. Called in the fork."""
    os.environ[heartbeat.VARIABLE] = watch
    heartbeat.listen()
    call_command("qcluster")


def _executed(watch: str) -> Child:
    command = [sys.executable, "-m", "chatmemory", "qcluster"]
    cluster = subprocess.Popen(  # noqa: S603  # our own command, no shell
        parent_death.command(command),
        stdin=subprocess.DEVNULL,
        cwd=settings.BASE_DIR,
        env={**os.environ, heartbeat.VARIABLE: watch},
        start_new_session=True,
    )
    return Child("cluster", cluster, Path(os.devnull), settings.WORKER_STOP_SECONDS)
