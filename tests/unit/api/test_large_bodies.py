import asyncio
import contextlib

import pytest

from chatmemory.api import async_view
from chatmemory.api.async_view import SharedAmount
from chatmemory.errors import Unavailable


async def _settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_large_bodies_wait_in_order() -> None:
    async def run() -> None:
        budget = SharedAmount(10)
        served: list[str] = []
        leave = {name: asyncio.Event() for name in "abc"}

        async def work(name: str, amount: int) -> None:
            async with budget.hold(amount):
                served.append(name)
                await leave[name].wait()

        tasks = []
        for name, amount in (("a", 8), ("b", 9), ("c", 1)):
            tasks.append(asyncio.create_task(work(name, amount)))
            await _settled()
        assert served == ["a"]  # "c" would fit, but "b" was there before it
        leave["a"].set()
        await _settled()
        assert served == ["a", "b", "c"]
        assert budget.held == 10
        for event in leave.values():
            event.set()
        await asyncio.gather(*tasks)
        assert budget.held == 0

    asyncio.run(run())


def test_large_body_that_gives_up_frees_the_queue() -> None:
    async def run() -> None:
        budget = SharedAmount(10)

        async def work(amount: int) -> None:
            async with budget.hold(amount):
                await asyncio.sleep(0)

        async with budget.hold(5):
            large, small = asyncio.create_task(work(9)), asyncio.create_task(work(5))
            await _settled()
            large.cancel()
            await asyncio.wait_for(small, 5)
        with contextlib.suppress(asyncio.CancelledError):
            await large
        assert budget.held == 0
        await work(99)  # more than the whole waits until it is alone

    asyncio.run(run())


def test_large_body_cancelled_on_grant_returns_memory() -> None:
    async def run() -> None:
        budget = SharedAmount(1)

        async def work() -> None:
            async with budget.hold(1):
                await asyncio.sleep(0)

        async with budget.hold(1):
            waiting = asyncio.create_task(work())
            await _settled()
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        assert budget.held == 0

    asyncio.run(run())


def test_waiting_ends_with_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_view, "WAIT_SECONDS", 0.01)

    async def run() -> None:
        budget = SharedAmount(1)
        async with budget.hold(1):
            with pytest.raises(Unavailable):
                async with budget.hold(1):
                    raise AssertionError
        assert budget.held == 0

    asyncio.run(run())
