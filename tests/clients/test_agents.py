"""Clients of the Model Context Protocol, each run as a separate program against a real server."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conversations.models import Chat
from tests.api.tool_talk import scripted
from tests.support.docs import snippet
from tests.support.fakes.http import Call, Serving
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

HERE = Path(__file__).parent
PYTHON = HERE.parents[1] / ".venv" / "clients" / "bin" / "python"
PROGRAMS = HERE / "mcp" / "node_modules" / ".bin"
TOOLS = {"search": True, "fetch": True, "list_chats": True, "get_memory": True, "remember": False, "forget": False}


def run(command: list[str], **env: str) -> str:
    """Run a program, and return what it printed."""
    path = f"{PROGRAMS}:{os.environ['PATH']}"  # with a newer Node first
    done = subprocess.run(
        command, env={**os.environ, "PATH": path, **env}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.clients_python
@pytest.mark.parametrize(("mode", "revision"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_official_client_calls_each_tool(alice: Client, upstream: FakeUpstream, mode: str, revision: str) -> None:
    asked = alice.ask("My boarding pass is ZX-81.")
    told = json.loads(run([str(PYTHON), str(HERE / "mcp_client.py"), alice.base, alice.token, mode]))
    assert (told["version"], told["server"], told["tools"]) == (revision, "chatmemory", TOOLS)
    assert told["read"]["text"] == " My boarding pass is ZX-81."
    assert told["chats"]["chats"][0]["id"] == asked["chat_id"]
    assert told["memory"]["pinned"][0]["text"] == " Always answer in metric units."
    assert (told["counted"]["deleted"], told["forgotten"]["deleted"]) == (False, True)
    assert (told["wrong"], told["unknown"]) == ("query: Field required", -32602)


@pytest.mark.clients_python
def test_program_of_the_docs_finds_what_was_said(alice: Client, upstream: FakeUpstream) -> None:
    alice.ask("My boarding pass is ZX-81.")
    upstream.script("stream", scripted(("call_1", "search", '{"query": "boarding pass"}')), "normal?text=ZX-81")
    program = snippet("docs/agents.md", "python", alice.base)
    said = run([str(PYTHON), "-c", program], TOKEN=alice.token, OPENAI_AGENTS_DISABLE_TRACING="1")
    assert said == "ZX-81\n"
    assert "My boarding pass is ZX-81." in upstream.calls("stream")[-1].text
    assert Chat.objects.count() == 2


@pytest.mark.agents
def test_claude_code_connects(alice: Client, tmp_path: Path) -> None:
    """By the line of the docs."""
    (line,) = re.findall(
        r"^claude mcp add .*(?:\\\n.*)*", (HERE.parents[1] / "docs/agents.md").read_text("utf-8"), re.M
    )
    command = line.replace("http://127.0.0.1:8000", alice.base)
    told = run(["sh", "-c", f"{command} && claude mcp list"], HOME=str(tmp_path), TOKEN=alice.token)
    assert "Connected" in told


@pytest.mark.agents
def test_inspector_lists_and_calls(alice: Client, upstream: FakeUpstream) -> None:
    alice.ask("My boarding pass is ZX-81.")
    token = ["--header", f"Authorization: Bearer {alice.token}"]
    inspector = [str(PROGRAMS / "mcp-inspector"), "--cli", f"{alice.base}/mcp", "--transport", "http", *token]
    listed = json.loads(run([*inspector, "--method", "tools/list"]))
    assert {one["name"] for one in listed["tools"]} == set(TOOLS)
    call = ["--method", "tools/call", "--tool-name", "search", "--tool-arg", "query=boarding"]
    assert "ZX-81" in json.loads(run([*inspector, *call]))["content"][0]["text"]


# The conformance suite, which sends no token


@pytest.fixture
def open_door(alice: Client) -> Iterator[str]:
    """The address of a proxy that adds alice's token to each request."""
    host = alice.base.removeprefix("http://")

    class Proxy(Serving):
        def pass_on(self, call: Call) -> None:
            body = call.body
            connection = http.client.HTTPConnection(host)
            connection.putrequest(call.command, call.path, skip_host=True, skip_accept_encoding=True)
            for name, value in [*call.headers.items(), ("Authorization", f"Bearer {alice.token}")]:
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            call.answer(answer.status, answer.read(), **{"Content-Type": answer.headers["Content-Type"] or ""})
            connection.close()

        get = post = delete = pass_on

    with Proxy() as proxy:
        yield f"{proxy.base_url.replace('127.0.0.1', 'localhost')}/mcp"


NEEDS = "server does not list the diagnostic tool|server exposes no tool|prompts/list|resources/"
"""What the suite says of checks for which a server needs the suite's own tools, prompts or resources."""


@pytest.mark.agents
@pytest.mark.parametrize(
    ("revision", "scenario"),
    [
        *(("2025-11-25", name) for name in ("server-initialize", "ping", "tools-list", "dns-rebinding-protection")),
        *(
            ("2026-07-28", name)
            for name in (
                "server-stateless",
                "tools-list",
                "dns-rebinding-protection",
                "http-header-validation",
                "caching",
                "server-sse-multiple-streams",
            )
        ),
    ],
)
def test_scenario_of_the_conformance_suite_passes(open_door: str, tmp_path: Path, revision: str, scenario: str) -> None:
    """All scenarios of the suite that need no tools, prompts or resources of its own."""
    suite = ["conformance", "server", "--url", open_door, "--scenario", scenario, "--spec-version", revision]
    subprocess.run(
        [str(PROGRAMS / suite[0]), *suite[1:], "-o", str(tmp_path)],
        env={**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"},
        capture_output=True,
        timeout=120,
        check=False,
    )
    (checks,) = tmp_path.rglob("checks.json")
    results = json.loads(checks.read_text("utf-8"))
    failed = [one for one in results if one["status"] == "FAILURE"]
    assert any(one["status"] == "SUCCESS" for one in results)
    assert [one["id"] for one in failed if not re.search(NEEDS, one.get("errorMessage", ""))] == []
