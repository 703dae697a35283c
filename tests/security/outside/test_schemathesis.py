"""Schemathesis against a running product: the server does what the schema says, and never fails.

`make schemathesis` runs it, and `make faults` for longer. It needs the extra `check`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from string import Template
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User

from memory.models import SummaryRevision
from tests.support.exhaustive import effort
from tests.support.live_server import Client
from tests.support.processes import Product
from tests.support.waiting import wait_for

HERE = Path(__file__).parent
PROGRAM = str(Path(sys.executable).with_name("schemathesis"))
USERS = ("alice", "bob")
PASSWORD = "correct horse battery"
# Generating strings as long as real messages that also match a pattern takes schemathesis minutes.
SHORT = {"MESSAGE_MAX_CHARS": "400", "INSTRUCTIONS_MAX_CHARS": "200", "MEMORY_K_RAW_TURNS": "1"}
EXAMPLES = (3, 100)
"""Examples per operation and sequences of calls, for `make schemathesis` and for `make faults`."""
SECONDS = (900, 3600)
"""Timeouts for the two. The short run takes about a minute on two idle cores."""


@pytest.fixture
def running(request: pytest.FixtureRequest, offline_product: Product, settings: Any) -> Product:
    """A server and a worker, and users who can sign in."""
    if not (os.environ.get("SCHEMATHESIS") or effort(False, True)):
        pytest.skip("run by `make schemathesis`")
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    for name in USERS:
        User.objects.create(username=name, password=make_password(PASSWORD))
    offline_product.env |= SHORT | {"CHEAP_PASSWORDS": "true"}
    offline_product.server()
    offline_product.worker()
    return offline_product


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.promise("P28")
def test_the_server_conforms_to_its_schema(running: Product, tmp_path: Path) -> None:
    client = running.client(USERS[0])
    chat_id, message_id = _remembered(client)
    response = client.post("responses", json={"model": "arco", "input": "And for Thursday?"}).json()["id"]
    config = _config(tmp_path, running, chat=chat_id, message=message_id, response=response)
    report = tmp_path / "report.json"
    command = [PROGRAM, "--config-file", str(config), "run", f"{running.url}/v1/schema?format=json"]
    options = ["--url", running.url, "--checks=all", "--no-color", f"--report-json-path={report}"]
    examples = f"--max-examples={effort(*EXAMPLES)}"
    done = subprocess.run(
        [*command, *options, examples], capture_output=True, text=True, timeout=effort(*SECONDS), cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout[-30_000:] + done.stderr
    found = json.loads(report.read_text())
    counts = found["operations"]
    assert counts["tested"] == counts["selected"] == counts["total"] - 1, "all but erasing oneself"
    answers = running.logged("request", name="server")
    assert {line["status"] for line in answers} >= {200, 201, 202, 204, 400, 401, 404, 405, 409, 415}


def _remembered(client: Client) -> tuple[UUID, UUID]:
    """Make a chat that has been folded, and return its id and that of its last reply."""
    chat_id = UUID(client.ask("What is the plan for Monday?")["chat_id"])
    for day in ("Tuesday", "Wednesday"):
        last = client.ask(f"And for {day}?", str(chat_id))["message"]["id"]
    client.post(f"chats/{chat_id}/resummarize", json={"mode": "update"})
    wait_for(lambda: SummaryRevision.objects.filter(chat=chat_id).exists(), "a fold", timeout=60)
    return chat_id, UUID(last)


def _config(folder: Path, product: Product, **known: object) -> Path:
    auth = folder / "auth.json"
    auth.write_text(json.dumps({"auth": [_sign_in(name) for name in USERS]}))
    text = Template((HERE / "schemathesis.toml").read_text())
    path = folder / "schemathesis.toml"
    path.write_text(text.substitute(hooks=HERE / "hooks.py", auth=auth, **known))
    return path


def _sign_in(name: str) -> dict[str, Any]:
    """Configure how a user gets a token, and a new one after it was revoked."""
    token = {
        "extractFrom": "body",
        "extractSelector": "/token",
        "sendIn": "header",
        "sendName": "Authorization",
        "sendTemplate": "Bearer {token}",
    }
    call = {
        "endpoint": "/v1/auth/token",
        "verb": "POST",
        "contentType": "application/json",
        "payloadRaw": json.dumps({"username": name, "password": PASSWORD}),
        "token": token,
    }
    return {"name": name, "loginEndpointAuth": call}
