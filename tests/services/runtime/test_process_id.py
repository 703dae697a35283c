"""A process has one name, whichever thread asks first; another process has another name."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from chatmemory.runtime import process_id


def test_threads_that_ask_at_once_get_the_same_name(monkeypatch: Any) -> None:
    def ask() -> str:
        barrier.wait(10)
        return process_id.name()

    with ThreadPoolExecutor(8) as threads:
        for _ in range(200):
            monkeypatch.setattr(process_id, "_named", None)
            barrier = threading.Barrier(8)
            assert len({asked.result() for asked in [threads.submit(ask) for _ in range(8)]}) == 1


def test_a_name_is_kept_and_names_the_process() -> None:
    assert process_id.name() == process_id.name()
    assert f":{os.getpid()}:" in process_id.name()


@pytest.mark.filterwarnings(
    "ignore:.*fork:DeprecationWarning"
)  # from Python 3.12 on, as other threads are running
def test_a_fork_has_a_name_of_its_own() -> None:
    mine, (reader, writer) = process_id.name(), os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, process_id.name().encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as told:
        theirs = told.read()
    assert theirs != mine
    assert f":{child}:" in theirs
