"""Folds a second of one worker process, with a summarizer that takes a second to answer.

Chats, each with a due fold, wait in the queue before the worker starts. Counted from the first fold to the last.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Max, Min

from benchmarks.figures import Figure, Group
from benchmarks.serving import processes
from benchmarks.speech import exchanges
from conversations.models import Chat
from memory.models import SummaryRevision
from tests.support.factories import add_turns, make_chat

THREADS = 100
CHATS = 500
TURNS = 30
BAR = 50.0
"""Folds a second on PostgreSQL with `THREADS`."""
PATIENCE_SECONDS = 60.0


def run(owner: User) -> Group:
    """Fold `CHATS` chats with 16 threads, the default, and as many with `THREADS`."""
    usual, few = folds_a_second(owner, settings.WORKER_THREADS, 10 * settings.WORKER_THREADS)
    many, cpu = folds_a_second(owner, THREADS, CHATS)
    bar = None if settings.IS_SQLITE else BAR
    return Group(
        "Folds of one worker process, with a summarizer that takes 1 s",
        (
            Figure(
                f"folds a second, {settings.WORKER_THREADS} threads (default)",
                usual,
                "",
                note=f"{few:.1f} ms of CPU each",
            ),
            Figure(
                f"folds a second, {THREADS} threads",
                many,
                "",
                bar=bar,
                at_least=True,
                note=f"{cpu:.1f} ms of CPU each",
            ),
        ),
    )


def folds_a_second(owner: User, threads: int, count: int, workers: int = 1) -> tuple[float, float]:
    """Return folds a second of all workers, and milliseconds of CPU for each fold."""
    said = (exchanges() * TURNS)[:TURNS]
    chats = []
    for _ in range(count):
        chat = make_chat(owner)
        add_turns(chat, [(one.user, one.assistant) for one in said])
        chats.append(chat.pk)
    revisions = SummaryRevision.objects.filter(chat__in=chats)
    with ExitStack() as stack:
        upstream = stack.enter_context(processes.slow_summarizer())
        started = [stack.enter_context(_worker(upstream.port, threads)) for _ in range(workers)]
        until = time.monotonic() + PATIENCE_SECONDS
        while not revisions.exists():
            if time.monotonic() > until:
                raise RuntimeError("no chat was folded in time")
            time.sleep(0.01)
        cpu = sum(processes.cpu_seconds(one.pid) for one in started)
        while revisions.count() < count:
            if time.monotonic() > until:
                raise RuntimeError(f"{revisions.count()} of {count} chats were folded in time")
            time.sleep(0.1)
        cpu = sum(processes.cpu_seconds(one.pid) for one in started) - cpu
    span = revisions.aggregate(first=Min("created_at"), last=Max("created_at"))
    Chat.objects.filter(pk__in=chats).delete()
    return (count - 1) / (span["last"] - span["first"]).total_seconds(), 1000 * cpu / count


@contextmanager
def _worker(port: int, threads: int) -> Iterator[subprocess.Popen[bytes]]:
    env = {
        **os.environ,
        "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1",
        "OPENAI_API_KEY": "sk-benchmark",
        "WORKER_THREADS": str(threads),
        "LOG_LEVEL": "WARNING",
    }
    out = None if os.environ.get("BENCH_LOGS") else subprocess.DEVNULL
    worker = subprocess.Popen([sys.executable, str(settings.BASE_DIR / "manage.py"), "worker"], env=env, stdout=out)
    try:
        yield worker
    finally:
        worker.terminate()
        worker.wait(30)
