"""A fake OpenAI server over raw TCP: it answers correctly, or misbehaves in every known way, on demand.

In tests, `with FakeUpstream() as fake:` runs it in its own thread; for benchmarks, `python -m
tests.support.fakes.upstream --port N` runs it as a process. It speaks `/v1/responses` and `/v1/chat/completions`,
streamed (lane `stream`) and not (lane `complete`), with keep-alive and chunked bodies. The first of these that applies
chooses its behaviour:

1. a script of the test for that lane: `fake.script("stream", "status?code=500", "normal")`, one entry per request;
2. the request's model name, if it names a behaviour: `model="drip?every=0.01"`;
3. the lane's behaviour: `fake.behave("cut?after=300", lane="stream")`.

By default it echoes the user's message, and answers the summarizer's input with a summary that keeps every code, or
with the object that the request's schema names. A reply ends with a memory card if the request wants one;
`Behaviour.says` makes either bad. Tokens of a behaviour that `thinks` count against the request's output limit.
`hold` and `release` close and open a lane; `requests` has all requests received. Every method may be called from any
thread.
"""

from __future__ import annotations

import argparse
import asyncio
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.support.fakes.behaviours import Behaviour, behaviour
from tests.support.fakes.connection import Connection, Request
from tests.support.fakes.embeddings import Embeddings
from tests.support.fakes.loop import LoopThread
from tests.support.fakes.replies import Replies
from tests.support.waiting import wait_for

Lane = Literal["stream", "complete"]
LANES: tuple[Lane, ...] = ("stream", "complete")


@dataclass
class _LaneState:
    default: Behaviour = field(default_factory=Behaviour)
    script: deque[Behaviour] = field(default_factory=deque)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    held: int = 0


class FakeUpstream(LoopThread):
    """The server and its controls. `base_url` is the value for `OPENAI_BASE_URL`."""

    def __init__(self, *, port: int = 0) -> None:
        super().__init__()
        self._port = port
        self._lock = threading.Lock()
        self._requests: list[Request] = []
        self._lanes = {lane: _LaneState() for lane in LANES}
        self._replies = Replies()
        self.embeddings = Embeddings()
        self.connections: set[Connection] = set()
        for state in self._lanes.values():
            state.gate.set()

    @property
    def base_url(self) -> str:
        """The URL at which clients reach it."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def requests(self) -> list[Request]:
        """Every request so far, oldest first."""
        with self._lock:
            return list(self._requests)

    @property
    def faults(self) -> list[str]:
        """What was wrong with requests, by the fake's strict parsing; each is a bug of the product."""
        return list(self._replies.faults)

    @property
    def active(self) -> int:
        """The number of requests that are being answered, or held."""
        return sum(connection.is_busy for connection in list(self.connections))

    def calls(self, lane: Lane) -> list[Request]:
        """Return the requests of one lane, oldest first."""
        return [request for request in self.requests if request.lane == lane]

    def clear(self) -> None:
        """Forget the requests so far, and the scripts and faults."""
        with self._lock:
            self._requests.clear()
            self._replies.faults.clear()
            for state in self._lanes.values():
                state.script.clear()

    def reset(self) -> None:
        """Restore the initial state: no requests, no scripts, default behaviour, open lanes.

        Answers in progress continue.
        """
        self.clear()
        self.behave("normal")
        for lane in LANES:
            self.release(lane)

    def behave(self, how: str | Behaviour = "normal", *, lane: Lane | None = None, **numbers: object) -> None:
        """Set the behaviour from now on, in one lane or in both."""
        chosen = behaviour(how, **numbers)
        for name in LANES if lane is None else (lane,):
            self._lanes[name].default = chosen

    def script(self, lane: Lane, *steps: str | Behaviour) -> None:
        """Queue behaviours for the next requests, one each; after them, the lane's behaviour applies again."""
        with self._lock:
            self._lanes[lane].script.extend(behaviour(step) for step in steps)

    def hold(self, lane: Lane = "stream") -> None:
        """Make requests of this lane wait: at the start, or with `hold_after=n` after the n-th delta."""
        self.in_loop(self._lanes[lane].gate.clear)

    def release(self, lane: Lane = "stream") -> None:
        """Let the held requests continue."""
        self.in_loop(self._lanes[lane].gate.set)

    def held(self, lane: Lane = "stream") -> int:
        """Return how many requests of this lane wait at the gate."""
        return self._lanes[lane].held

    def wait_until(self, condition: Callable[[FakeUpstream], object]) -> None:
        """Wait for a state of the fake. Raise `AssertionError` if it is not reached in time."""
        wait_for(lambda: condition(self), "a state of the fake upstream")

    def serve_forever(self) -> None:
        """Run in this thread until interrupted; print `base_url` once it can be reached."""
        self.run(lambda: print(self.base_url, flush=True))

    async def start(self) -> None:
        server = await self._loop.create_server(lambda: Connection(self), "127.0.0.1", self._port, backlog=1024)
        self._server, self._port = server, server.sockets[0].getsockname()[1]

    def end(self) -> None:
        self._server.close()
        for connection in list(self.connections):
            connection.abort()

    # The interface for connections.

    def take(self, request: Request) -> Any:
        """Record a request and return the steps by which to answer it."""
        if request.path.endswith("/embeddings"):
            return self.embeddings.steps(request)
        state = self._lanes[request.lane]
        with self._lock:
            self._requests.append(request)
            scripted = state.script.popleft() if state.script else None
        return self._replies.steps(request, scripted, state.default)

    async def pass_gate(self, lane: Lane) -> None:
        """Wait until the lane is open."""
        state = self._lanes[lane]
        if state.gate.is_set():
            return
        state.held += 1
        try:
            await state.gate.wait()
        finally:
            state.held -= 1


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--stream", default="normal", help="behaviour of streamed calls")
    parser.add_argument("--complete", default="normal", help="behaviour of calls that are not streamed")
    arguments = parser.parse_args()
    fake = FakeUpstream(port=arguments.port)
    fake.behave(arguments.stream, lane="stream")
    fake.behave(arguments.complete, lane="complete")
    try:
        fake.serve_forever()
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
