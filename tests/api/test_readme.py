"""Commands that README and docs/clients.md tell users to paste, run against a real server with the built-in model."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.docs import snippet
from tests.support.exhaustive import first_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, LiveServer

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).resolve().parents[2]
NODE = shutil.which("node")


@pytest.fixture
def offline(settings: Any) -> None:
    """Clear the key and the base URL, as after `make run`."""
    settings.OPENAI_API_KEY = settings.OPENAI_BASE_URL = ""


def run(command: list[str], alice: Client) -> str:
    env = {**os.environ, "TOKEN": alice.token, "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def replies(alice: Client) -> list[str]:
    """Return all replies in the only chat."""
    (chat,) = alice.get("chats").json()["results"]
    messages = alice.get(f"chats/{chat['id']}/messages", params={"order": "asc"}).json()["results"]
    return [one["content"] for one in messages if one["role"] == "assistant"]


def test_the_curl_command_streams_a_reply(live: LiveServer, alice: Client, offline: None) -> None:
    out = run(["bash", "-c", snippet("README.md", "bash", live.url)], alice)
    events = re.findall(r"^event: (.*)$", out, re.MULTILINE)
    assert (events[0], events[-1]) == ("message.created", "message.completed")
    assert "content.delta" in events


def test_the_recipe_of_a_model_behind_it_answers(live: LiveServer, alice: Client, upstream: FakeUpstream) -> None:
    """As from Ollama, which has Chat Completions only."""
    out = run(["bash", "-c", snippet("docs/recipes.md", "bash", live.url)], alice)
    headers, _, body = out.partition("\n\n")
    assert "x-chatmemory-conversation: new" in headers.lower()
    assert json.loads(body)["choices"][0]["message"]["content"] == "You said: Hello"


def test_the_python_program_talks_in_one_chat_that_remembers(live: LiveServer, alice: Client, offline: None) -> None:
    out = run([sys.executable, "-c", snippet("README.md", "python", live.url)], alice)
    said = replies(alice)
    assert len(said) == 2
    assert all(reply in out for reply in said)
    assert "AB-1234" in said[-1]


CLIENTS = {"python": [sys.executable, "-c"], "typescript": [str(NODE), "--input-type=module", "-e"]}


@pytest.mark.parametrize("language", first_of(CLIENTS))
def test_each_client_makes_the_five_calls(live: LiveServer, alice: Client, offline: None, language: str) -> None:
    if language == "typescript" and NODE is None:
        pytest.skip("there is no Node on this machine")
    out = run([*CLIENTS[language], snippet("docs/clients.md", language, live.url)], alice)
    said = replies(alice)
    assert len(said) == 2
    assert "AB-1234" in said[-1]
    assert said[-1] in out.replace("\\n", "\n").replace('\\"', '"'), "the second reply"
    assert "My order is AB-1234" in out, "the messages"
    assert re.search(r"^(True|true) ", out, re.MULTILINE), "the prompt"
    assert re.search(r"^0 ", out, re.MULTILINE), "the summary"
