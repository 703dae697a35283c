"""Agents at `/mcp`: a call beside the same call of the API, and the memory that 500 clients take which then wait."""

from __future__ import annotations

import http.client
import json
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from django.contrib.auth.models import User
from knox.models import AuthToken

from benchmarks.figures import Figure, Group
from benchmarks.serving import processes
from tests.support.factories import add_turn, make_chat

CLIENTS = 500
MEMORY_BAR = 50.0
CALLS = 200
WORDS = "boarding pass"


def run(owner: User) -> Group:
    """Measure calls in turn on one connection each, then the clients."""
    token = str(AuthToken.objects.create(owner)[1])
    chat = make_chat(owner)
    for number in range(50):
        add_turn(chat, f"My boarding pass for trip {number} is ZX-{number}.", "I will remember that.")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = stack.enter_context(processes.sink())
        server = stack.enter_context(processes.server(upstream, folder / "log"))
        agent, client = Agent(server.port, token), Agent(server.port, token)
        tool: list[float] = []
        api: list[float] = []
        for _ in range(CALLS):
            tool.append(agent.timed("/mcp", message("tools/call", name="search", arguments={"query": WORDS})))
            api.append(client.timed("/v1/search", {"q": WORDS}))
        for _ in range(20):  # the threads that serve many at once are there before
            waiting = [Agent(server.port, token) for _ in range(20)]
            for one in waiting:
                one.introduce()
        before = processes.resident_mib(server.pid)
        clients = [Agent(server.port, token) for _ in range(CLIENTS)]
        for one in clients:
            one.introduce()
        after = processes.resident_mib(server.pid)
    return Group(
        "Agents at /mcp",
        (
            Figure("search, a call", median(tool), "ms"),
            Figure("over that of the API", median(tool) / median(api), "×"),
            Figure(f"memory, {CLIENTS} clients that wait", max(after - before, 0.0), "MiB", bar=MEMORY_BAR),
        ),
    )


def message(method: str, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


class Agent:
    """A client with a connection of its own, which stays open."""

    def __init__(self, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def send(self, path: str, body: object, method: str = "POST") -> int:
        self._connection.request(method, path, json.dumps(body), self._headers)
        answer = self._connection.getresponse()
        answer.read()
        return answer.status

    def timed(self, path: str, body: object) -> float:
        """Make a call, and return how long it took, in milliseconds."""
        began = time.perf_counter()
        assert self.send(path, body) == 200
        return (time.perf_counter() - began) * 1000

    def introduce(self) -> None:
        """Do what clients do first: shake hands, ask for a stream of its own, and read the list of tools."""
        assert self.send("/mcp", message("initialize", protocolVersion="2025-11-25", capabilities={})) == 200
        assert self.send("/mcp", {}, "GET") == 405
        assert self.send("/mcp", message("tools/list")) == 200
