"""Work that may hang: one call at a time, shared by all callers, and a new call once it is over."""

from __future__ import annotations

import threading
from concurrent.futures import wait

import pytest

from chatmemory.runtime.threads import OneAtATime


class Work:
    """A callable that counts its calls. Each waits until it is released, then returns its number; the second raises."""

    def __init__(self) -> None:
        self.calls = 0
        self.lets_go = threading.Event()

    def __call__(self) -> int:
        self.calls += 1
        number = self.calls
        assert self.lets_go.wait(10)
        if number == 2:
            raise OSError("the second call")
        return number


def test_who_asks_meanwhile_shares_the_call() -> None:
    work = Work()
    bounded = OneAtATime(work, "test")
    asked = [bounded.ask() for _ in range(5)]
    with pytest.raises(TimeoutError):
        asked[0].result(timeout=0.05)
    work.lets_go.set()
    assert {future.result(10) for future in asked} == {1}
    assert work.calls == 1


def test_what_it_raises_is_raised_where_it_is_waited_for_and_the_next_call_is_a_new_one() -> None:
    work = Work()
    work.lets_go.set()
    bounded = OneAtATime(work, "test")
    assert bounded.ask().result(10) == 1
    second = bounded.ask()
    wait([second], 10)
    assert isinstance(second.exception(), OSError)
    assert bounded.ask().result(10) == 3
