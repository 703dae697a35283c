"""Threads that make their first calls at once share one event loop."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from chatmemory.llm.openai import transport

THREADS = 4


def test_the_first_calls_of_threads_share_one_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_loops", {})
    before, together = threading.enumerate(), threading.Barrier(THREADS)

    def first_call(_: int) -> object:
        together.wait()
        return transport._loop_of_threads()

    with ThreadPoolExecutor(THREADS) as pool:
        assert len(set(pool.map(first_call, range(THREADS)))) == 1
    (loop,) = transport._loops.values()
    loop.call_soon_threadsafe(loop.stop)
    (thread,) = [one for one in threading.enumerate() if one.name == transport.THREAD and one not in before]
    thread.join()
    loop.close()
