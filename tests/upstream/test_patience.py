"""Waiting for bytes: what ends a wait, and what a cancellation means, on both event loops that servers use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import pytest
import uvloop

from chatmemory.llm.openai.deadlines import ReadDeadlines
from chatmemory.llm.protocol import Deadlines

LoopFactory = Callable[[], asyncio.AbstractEventLoop]
LOOPS: dict[str, LoopFactory] = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LOOPS, autouse=True)
def loop_factory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOOPS, "used", LOOPS[request.param])


async def chunks(*pauses: float) -> AsyncGenerator[bytes, None]:
    for pause in pauses:
        if pause:
            await asyncio.sleep(pause)
        yield b"x"


async def read_all(patience: ReadDeadlines, source: AsyncIterator[bytes]) -> int:
    count = 0
    while await patience.read(source):
        count += 1
    return count


def run(deadlines: Deadlines, use: Any) -> Any:
    async def once() -> Any:
        patience = ReadDeadlines(deadlines)
        try:
            return await use(patience)
        finally:
            patience.close()

    with asyncio.Runner(loop_factory=LOOPS["used"]) as runner:
        return runner.run(once())


def test_bytes_in_time_pass() -> None:
    assert run(Deadlines(1, 1, 1), lambda patience: read_all(patience, chunks(0, 0.01, 0))) == 3


@pytest.mark.parametrize(
    ("deadlines", "pauses"),
    [
        (Deadlines(idle=0.02, total=5), (0, 5)),  # silence
        (Deadlines(idle=5, total=0.05), (0.01,) * 500),  # a drip, never silent for long
        (Deadlines(idle=5, total=0.02), (0,) * 1_000_000),  # a flood without pauses
    ],
)
def test_each_deadline_ends_a_wait(deadlines: Deadlines, pauses: tuple[float, ...]) -> None:
    with pytest.raises(TimeoutError):
        run(deadlines, lambda patience: read_all(patience, chunks(*pauses)))


def test_a_shortened_total_rings_although_the_timer_was_set_for_later() -> None:
    async def use(patience: ReadDeadlines) -> None:
        source = chunks(0, 5)
        await patience.read(source)
        patience.shorten(0.02)
        with pytest.raises(TimeoutError):
            await patience.read(source)

    run(Deadlines(1, 1, 5), use)


def test_a_deadline_that_is_as_good_as_now() -> None:
    """For a deadline that is already due, uvloop makes a handle that does not know its time."""
    assert run(Deadlines(idle=0.0001, total=5), lambda patience: read_all(patience, chunks(0, 0, 0))) == 3


def test_nothing_is_cancelled_between_two_reads() -> None:
    async def use(patience: ReadDeadlines) -> int:
        source = chunks(0, 0, 0)
        await patience.read(source)
        await asyncio.sleep(0.05)  # the timer fires during this
        return await read_all(patience, source)

    assert run(Deadlines(idle=0.02, total=5), use) == 2


def test_a_cancellation_from_outside_stays_one() -> None:
    async def use(patience: ReadDeadlines) -> bool:
        async def wait() -> None:
            await patience.read(chunks(5))

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return task.cancelled()

    assert run(Deadlines(1, 1, 5), use) is True


def test_a_cancellation_at_the_very_deadline_is_not_lost() -> None:
    async def use(patience: ReadDeadlines) -> bool:
        async def wait() -> None:
            await patience.read(chunks(5))

        task = asyncio.create_task(wait())
        asyncio.get_running_loop().call_at(patience.until, task.cancel)
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_at(patience.until, task.cancel)
        await asyncio.gather(task, return_exceptions=True)
        return task.cancelled()

    assert run(Deadlines(0.02, 0.02, 0.02), use) is True


def test_the_task_is_whole_after_a_timeout() -> None:
    """Our own cancellation must not be left pending: the next await would be cancelled."""

    async def use(patience: ReadDeadlines) -> str:
        with pytest.raises(TimeoutError):
            await patience.read(chunks(5))
        await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        return "alive"

    assert run(Deadlines(1, 0.02, 5), use) == "alive"
