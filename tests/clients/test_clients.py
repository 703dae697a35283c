"""Third-party clients, each run as a separate program against a real server."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from conversations.models import Chat
from tests.api.tool_talk import scripted
from tests.support.docs import snippet
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

HERE = Path(__file__).parent
PYTHON = HERE.parents[1] / ".venv" / "clients" / "bin" / "python"
"""It needs an older SDK than the others."""
OBJECT = '{"name": "Ada"}'
FIRST = "You said: My order is AB-1234."
SECOND = "You said: Which order?"
LOOKED = (["AB-1234"], "You said: AB-1234 was sent on 4 May")
"""What every client looks up when the model calls its tool, and what the model says then."""


def run(command: list[str], alice: Client, **options: Any) -> subprocess.CompletedProcess[str]:
    env = {
        **os.environ,
        "BASE_URL": f"{alice.base}/v1",
        "TOKEN": alice.token,
        "NO_PROXY": "127.0.0.1",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    return subprocess.run(
        command, cwd=HERE, env=env, capture_output=True, text=True, timeout=120, check=False, **options
    )


def output_of(command: list[str], alice: Client) -> dict[str, Any]:
    """Run a program and return what it printed."""
    done = run(command, alice)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture
def objects(upstream: FakeUpstream) -> None:
    """Make the third answer an object: the clients send a conversation of two turns first."""
    upstream.script("stream", "normal", "normal", f"normal?text={OBJECT}")


@pytest.mark.clients
def test_the_official_sdk_for_node(alice: Client, upstream: FakeUpstream) -> None:
    found = output_of(["node", "openai_node.mjs"], alice)
    assert (found["first"], found["streamed"], found["final"]) == (FIRST, SECOND, "You said: Hello")
    assert found["decisions"] == ["new", "continued"]
    assert found["usage"]
    assert found["error"] == {"name": "NotFoundError", "code": "model_not_found", "status": 404}
    assert "arco" in found["models"]
    assert (found["looked"], found["told"]) == LOOKED
    assert sorted(Chat.objects.values_list("last_seq", flat=True)) == [2, 4, 5]


@pytest.mark.clients
def test_the_vercel_ai_sdk(alice: Client, upstream: FakeUpstream, objects: None) -> None:
    found = output_of(["node", "ai_sdk.mjs"], alice)
    assert (found["first"], found["streamed"]) == (FIRST, SECOND)
    assert (found["finish"], found["decision"], found["tokens"]) == ("stop", "continued", True)
    assert found["object"] == {"name": "Ada"}
    assert "json_schema" in [
        request.body.get("text", {}).get("format", {}).get("type") for request in upstream.requests
    ]
    assert (found["looked"], found["told"]) == LOOKED
    assert upstream.faults == []


@pytest.mark.clients
def test_the_recipe_of_the_ai_sdk_answers(alice: Client, upstream: FakeUpstream) -> None:
    program = snippet("docs/recipes.md", "ts", alice.base)
    done = run(["node", "--input-type=module", "-e", program], alice)
    assert (done.returncode, done.stdout) == (0, "You said: Hello"), done.stderr


@pytest.mark.clients_python
def test_the_recipe_of_langchain_answers(alice: Client, upstream: FakeUpstream) -> None:
    done = run([str(PYTHON), "-c", snippet("docs/recipes.md", "python", alice.base)], alice)
    assert (done.returncode, done.stdout) == (0, "You said: Hello\n"), done.stderr


@pytest.mark.clients
def test_llmprobe_finds_nothing_that_the_api_must_do_and_does_not(alice: Client, settings: Any) -> None:
    settings.OPENAI_API_KEY = settings.OPENAI_BASE_URL = ""  # the built-in model, which respects limits
    probe = [str(HERE / "node_modules" / ".bin" / "llmprobe"), f"{alice.base.removeprefix('http://')}/v1"]
    done = run([*probe, "-k", alice.token, "--model", "arco", "--quick", "--no-bench", "--no-save", "--json"], alice)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


@pytest.mark.clients
@pytest.mark.parametrize("style", ["chat", "responses"])
def test_all_of_llmprobe_finds_nothing_new(alice: Client, upstream: FakeUpstream, settings: Any, style: str) -> None:
    """With tools, formats and limits, over an upstream that obeys them. The baseline is what passed before."""
    settings.OPENAI_API_STYLE = style
    upstream.behave("normal?obeys=1", lane="stream")
    probe = [str(HERE / "node_modules" / ".bin" / "llmprobe"), f"{alice.base.removeprefix('http://')}/v1"]
    done = run([*probe, "-k", alice.token, "--model", "arco", "--no-bench", "--no-save", "--json"], alice)
    results = json.loads(done.stdout)["conformance"]["results"]
    outcomes: dict[str, list[str]] = {}
    for one in results:
        outcomes.setdefault(one["outcome"], []).append(one["id"])
    baseline = json.loads((HERE / "llmprobe.json").read_text("utf-8"))[style]
    assert outcomes.get("fail", []) == baseline["fail"]
    assert set(baseline["pass"]) <= set(outcomes["pass"])


@pytest.mark.clients_python
@pytest.mark.parametrize("program", ["langchain_client.py", "litellm_client.py"])
def test_python_libraries(alice: Client, upstream: FakeUpstream, program: str) -> None:
    if "langchain" in program:
        upstream.script("stream", "normal", "normal", f"normal?text={OBJECT}")
    found = output_of([str(PYTHON), program], alice)
    assert (found["first"], found["streamed"], found["tokens"]) == (FIRST, SECOND, True)
    assert found.get("object", {"name": "Ada"}) == {"name": "Ada"}
    assert (found["looked"], found["told"]) == LOOKED
    assert Chat.objects.filter(last_seq=4).count() == 1
    assert Chat.objects.filter(last_seq=5).count() == 1, "the turn with the tool"
    assert upstream.faults == []


@pytest.mark.clients_python
def test_langchain_agent_that_summarizes_by_itself_stays_in_one_chat(alice: Client, upstream: FakeUpstream) -> None:
    """Its requests for a summary, which quote the conversation, are set aside when it goes on."""
    found = output_of([str(PYTHON), "langchain_agent.py"], alice)
    assert found["said"] == "You said: Order 20 is AB-1020. Where is it?"
    assert found["shortened"] > 1
    (chat,) = [one["id"] for one in alice.get("chats").json()["results"]]
    said = alice.get(f"chats/{chat}/messages?limit=100").json()["results"]
    asked = [message["content"] for message in said if message["role"] == "user"]
    assert asked == [f"Order {number} is AB-{1000 + number}. Where is it?" for number in range(1, 21)]
    assert "Order 2 is AB-1002" in upstream.requests[-1].text
    assert upstream.faults == []


@pytest.mark.clients_python
@pytest.mark.parametrize("mode", ["TOOLS", "JSON", "MD_JSON"])
def test_instructor_stays_in_one_chat(alice: Client, upstream: FakeUpstream, mode: str) -> None:
    """It tells calls as JSON text, and adds instructions of its own to the first or the last message."""
    people = [json.dumps({"name": f"Ada {number}", "number": number}) for number in range(20)]
    fenced = [f"```json\n{person}\n```" if mode == "MD_JSON" else person for person in people]
    calls = [scripted((f"call_{number}", "Person", person)) for number, person in enumerate(people)]
    texts = [f"normal?text={quote(text, safe='')}" for text in fenced]
    upstream.script("stream", *(calls if mode == "TOOLS" else texts))
    found = output_of([str(PYTHON), "instructor_client.py", mode], alice)
    assert found["found"] == list(range(20))
    chat = Chat.objects.get()
    assert chat.messages.filter(role="user").count() == 20
    assert "Ada 0" in upstream.requests[-1].text
    assert upstream.faults == []


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["node", "twenty_turns.mjs"], marks=pytest.mark.clients, id="ai_sdk"),
        *(
            pytest.param([str(PYTHON), "twenty_turns.py", name], marks=pytest.mark.clients_python, id=name)
            for name in ("openai_sdk", "openai_agents", "pydantic_ai", "agent_framework")
        ),
    ],
)
def test_twenty_turns_of_responses_are_one_chat_with_memory(
    alice: Client, upstream: FakeUpstream, command: list[str]
) -> None:
    """The outputs of the tool alone are more than the budget of a prompt."""
    orders = [f"AB-{1000 + number}" for number in range(1, 21)]
    answers = [json.dumps({"order": order}) for order in orders]
    for number, answer in enumerate(answers):
        upstream.script(
            "stream", scripted((f"call_{number}", "look_up_order", answer)), f"normal?text={quote(answer, safe='')}"
        )
    assert output_of(command, alice) == {"looked": orders, "said": answers}
    (chat,) = alice.get("chats").json()["results"]
    messages = alice.get(f"chats/{chat['id']}/messages?limit=100").json()["results"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool_call", "tool", "assistant"] * 20
    context = alice.get(f"chats/{chat['id']}/messages/{messages[-1]['id']}/context").json()
    assert context["history_tokens"] > 2 * context["budget"]
    prompt = json.dumps(context["prompt"])
    assert "Order 2 is AB-1002" in prompt
    assert "Order 4 is AB-1004" in prompt
    assert upstream.faults == []
