"""A request keeps one thread to its end, and the next request gets it."""

from __future__ import annotations

import threading

import pytest

from chatmemory.runtime import request_threads
from chatmemory.runtime.request_threads import KEPT, RequestThread


@pytest.fixture(autouse=True)
def _no_thread_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_threads, "_idle", [])


def of(thread: RequestThread) -> int:
    """The id of the thread that it runs on."""
    return thread.submit(threading.get_ident).result(10)


def test_a_request_has_one_thread_which_the_next_one_gets() -> None:
    first, second = RequestThread(), RequestThread()
    used = of(first)
    assert of(first) == used
    assert of(second) != used  # the first thread is not free yet
    first.give_back()
    third = RequestThread()
    assert of(third) == used
    for one in (second, third):
        one.give_back()


def test_a_request_that_needs_none_takes_none() -> None:
    RequestThread().give_back()
    assert request_threads._idle == []


def test_no_more_are_kept_than_that() -> None:
    many = [RequestThread() for _ in range(KEPT + 3)]
    for one in many:
        of(one)
    for one in many:
        one.give_back()
    assert len(request_threads._idle) == KEPT
