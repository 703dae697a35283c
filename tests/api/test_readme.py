"""What README tells people to paste, pasted: against a real server of ours, with the built-in model."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.live_server import Client, LiveServer

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()


def snippet(language: str, url: str) -> str:
    """The one block of that language, for the server at `url`."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found.count("http://127.0.0.1:8000") == 1
    return str(found).replace("http://127.0.0.1:8000", url)


@pytest.fixture
def offline(settings: Any) -> None:
    """No key and no base URL, as after `make run`."""
    settings.OPENAI_API_KEY = settings.OPENAI_BASE_URL = ""


def run(command: list[str], alice: Client) -> str:
    env = {**os.environ, "TOKEN": alice.token, "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_curl_command_streams_a_reply(live: LiveServer, alice: Client, offline: None) -> None:
    out = run(["bash", "-c", snippet("bash", live.url)], alice)
    events = re.findall(r"^event: (.*)$", out, re.MULTILINE)
    assert (events[0], events[-1]) == ("message.created", "message.completed")
    assert "content.delta" in events


def test_the_python_program_talks_in_one_chat_that_remembers(
    live: LiveServer, alice: Client, offline: None
) -> None:
    out = run([sys.executable, "-c", snippet("python", live.url)], alice)
    (chat,) = alice.get("chats").json()["results"]
    messages = alice.get(f"chats/{chat['id']}/messages").json()["results"]
    replies = [one["content"] for one in messages if one["role"] == "assistant"]
    assert len(replies) == 2
    assert all(reply in out for reply in replies)
    assert "AB-1234" in replies[-1]
