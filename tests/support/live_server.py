"""A real server in this process: uvicorn in its own thread, so tests use HTTP and can still change settings."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn


class _Server(uvicorn.Server):
    """A uvicorn server that exposes its event loop."""

    loop: asyncio.AbstractEventLoop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        await super().startup(sockets)


class LiveServer:
    """The ASGI application on a free port of 127.0.0.1."""

    def __init__(self) -> None:
        config = uvicorn.Config(
            "chatmemory.asgi:application",
            http="chatmemory.http_protocol:HttpProtocol",
            log_config=None,
            lifespan="on",
            loop="asyncio",
            timeout_graceful_shutdown=5,
        )
        self._server = _Server(config)
        self._socket = socket.create_server(("127.0.0.1", 0))
        # Connections inherit this. asyncio sets it only on sockets that it makes itself; without it each answer takes
        # 40 ms.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> LiveServer:
        self._thread.start()
        with httpx.Client(transport=httpx.HTTPTransport(retries=5)) as client:
            assert client.get(f"{self.url}/healthz", timeout=20).status_code == 200
        return self

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._server.loop).result(10)

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(20)
        self._socket.close()


@dataclass
class Event:
    """A server-sent event as a client reads it."""

    name: str
    data: dict[str, Any]
    id: str | None = None


@dataclass
class Client:
    """A client of the API with one user's token."""

    base: str
    token: str
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        # All of it is plain HTTP; reading the system's certificates takes 25 ms per client.
        # The server closes a connection that was idle for 5 seconds, httpx by default after as long: a request could
        # be sent on one that is just being closed.
        self.http = httpx.Client(
            verify=False,
            base_url=self.base,
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=30,
            limits=httpx.Limits(keepalive_expiry=2),
        )

    def __getattr__(self, method: str) -> Any:
        """Return `get`, `post`, `patch`, `delete` of httpx, on paths below `/v1`."""
        call = getattr(self.http, method)
        return lambda path, **options: call(path if path.startswith("/") else f"/v1/{path}", **options)

    def ask(self, message: str, chat_id: str | None = None, **fields: Any) -> dict[str, Any]:
        """Send a message and wait for the whole answer: the body of `"stream": false`."""
        body = {"message": message, "stream": False, **fields}
        answer = self.post(
            "message" if chat_id else "message/first",
            json={**body, **({"chat_id": chat_id} if chat_id else {})},
        )
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()
        return result

    def erase(self, **body: str) -> httpx.Response:
        """Erase the calling user: `password`, or `confirm` for a user without one."""
        return self.http.request("DELETE", "/v1/me", json=body)

    @contextmanager
    def stream(self, method: str, path: str, **options: Any) -> Iterator[Iterator[Event]]:
        """Open a stream and read its events one by one; leaving closes the connection."""
        with self.http.stream(method, f"/v1/{path}", **options) as response:
            if response.status_code != 200:
                response.read()
            assert response.status_code == 200, response.text
            assert response.headers["content-type"].startswith("text/event-stream")
            yield parse_events(response.iter_lines())

    def events(self, method: str, path: str, **options: Any) -> list[Event]:
        """Return all events of a stream, to its end."""
        with self.stream(method, path, **options) as events:
            return list(events)


def parse_events(lines: Iterator[str]) -> Iterator[Event]:
    """Lines of `text/event-stream` → events. Comments are left out."""
    name, data, event_id = "", "", None
    for line in lines:
        if not line:
            if name:
                yield Event(name, json.loads(data), event_id)
            name, data, event_id = "", "", None
        elif not line.startswith(":"):
            kind, _, value = line.partition(": ")
            name = value if kind == "event" else name
            data = value if kind == "data" else data
            event_id = value if kind == "id" else event_id


def joined(events: list[Event]) -> str:
    """Return the joined text of the deltas."""
    return "".join(event.data["delta"] for event in events if event.name == "content.delta")
