"""The answer of every operation of the API, frozen, for one seeded chat: a change of the code changes none of them.

Ids, times and hashes are replaced by marks. Where an answer is meant to change, `FREEZE=1` writes
`frozen_answers.json` anew; the commit says why.
"""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from memory.models import Worker
from tests.security.access.operations import operations
from tests.support.exports import claude
from tests.support.factories import add_turns, make_chat, make_user
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import run_fold, turn
from tests.support.live_server import Client, parse_events

FROZEN = Path(__file__).with_name("frozen_answers.json")
LEFT_OUT = {
    *("DELETE /v1/me", "DELETE /v1/auth/tokens", "DELETE /v1/auth/token"),
    *("DELETE /v1/users/{end_user}", "GET /v1/users/{end_user}/export", "GET /v1/users/{end_user}/deletion"),
    *("GET /v1/users/{end_user}/memory", "PUT /v1/users/{end_user}/memory"),
    *("GET /v1/webhook", "PUT /v1/webhook", "DELETE /v1/webhook"),
}
"""They end what the other operations need, or are for apps only; each has tests of its own."""
QUESTION = "What was said of T3?"

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.]*Z|\b\d{4}-\d\d-\d\d\b")
_OF_OPENAI = re.compile(r"\b(resp|msg|fc|fco)_[0-9a-f]{32}")
_SERVER = re.compile(r"http://127\.0\.0\.1:\d+")
_HASH = re.compile(r"\b[0-9a-f]{64}\b")
_VARIES = set(
    "duration_ms minutes created created_at completed_at token cursor next previous request_id id prefix".split()
)


class Marks:
    """Replaces what differs from run to run: each id by the number of its first appearance."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def of(self, value: Any, name: str = "") -> Any:
        """Return a JSON value with marks."""
        if isinstance(value, dict):
            return {key: self.of(inner, key) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.of(inner, name) for inner in value]
        if isinstance(value, str):
            text = _UUID.sub(lambda found: self._ids.setdefault(found[0], f"<id {len(self._ids)}>"), value)
            text = _OF_OPENAI.sub(r"<\1>", text)
            text = _HASH.sub("<hash>", _TIME.sub("<time>", _SERVER.sub("", text)))
            return f"<{name}>" if name in _VARIES and text == value else text
        return f"<{name}>" if name in _VARIES and value is not None else value


def masked(answer: httpx.Response, marks: Marks) -> Any:
    """Return status and body of an answer with marks: JSON, or the events of a stream."""
    kind = answer.headers.get("content-type", "")
    if kind.startswith("text/event-stream"):
        events = [(event.name, marks.of(event.data)) for event in parse_events(iter(answer.text.splitlines()))]
        return [answer.status_code, [one for one in events if one[0] != "content.delta"]]
    return [answer.status_code, marks.of(answer.json()) if "json" in kind else kind]


def script(alice: Client) -> list[tuple[str, str, Any]]:
    """Every call: its operation as in the schema, its path, and its body."""
    chat = make_chat(make_user("alice"), title="Harbour", instructions="Be brief.")
    add_turns(chat, [turn(number, 40) for number in range(1, 31)])
    alice.post(f"chats/{chat.pk}/resummarize", json={"mode": "update"})
    run_fold(chat)
    spare = make_chat(make_user("alice"))
    add_turns(spare, [turn(number) for number in range(1, 4)])
    here, there = f"/v1/chats/{chat.pk}", f"/v1/chats/{spare.pk}"
    asked = alice.ask(QUESTION, str(chat.pk))
    reply, question = asked["message"]["id"], asked["user_message_id"]
    made = alice.post("responses", json={"model": "arco", "input": "And T7?", "conversation": str(spare.pk)}).json()
    pin = alice.post(f"chats/{chat.pk}/pins", json={"text": "Always answer in English."}).json()
    token = alice.get("auth/tokens").json()
    token_id = (token["results"] if isinstance(token, dict) else token)[0]["id"]
    say = {"message": "And T4?", "stream": False}
    one = "/v1/chats/{chat_id}"
    message = f"{one}/messages/{{message_id}}"
    response = "/v1/responses/{response_id}"
    return [
        ("GET /healthz", "/healthz", None),
        ("GET /readyz", "/readyz", None),
        ("GET /v1/me", "/v1/me", None),
        ("GET /v1/auth/tokens", "/v1/auth/tokens", None),
        ("POST /v1/auth/token", "/v1/auth/token", {"username": "alice", "password": "wrong"}),
        ("GET /v1/models", "/v1/models", None),
        ("GET /v1/models/{model}", "/v1/models/arco", None),
        ("GET /v1/usage", "/v1/usage", None),
        ("PUT /v1/me/memory", "/v1/me/memory", {"across": "pins"}),
        ("GET /v1/me/memory", "/v1/me/memory", None),
        ("GET /v1/chats", "/v1/chats", None),
        (f"GET {one}", here, None),
        (f"GET {one}/deletion", f"{here}/deletion", None),
        ("GET /v1/me/deletion", "/v1/me/deletion", None),
        (f"GET {one}/messages", f"{here}/messages?limit=3", None),
        (f"GET {message}", f"{here}/messages/{reply}", None),
        (f"GET {message}/context", f"{here}/messages/{reply}/context", None),
        (f"GET {message}/sources", f"{here}/messages/{reply}/sources", None),
        (f"GET {message}/deletion", f"{here}/messages/{reply}/deletion", None),
        (f"GET {message}/stream", f"{here}/messages/{reply}/stream", None),
        (f"GET {one}/attachments/{{sha256}}", f"{here}/attachments/{'0' * 64}", None),
        (f"GET {one}/brief", f"{here}/brief", None),
        (f"GET {one}/estimate", f"{here}/estimate", None),
        (f"GET {one}/revisions", f"{here}/revisions", None),
        (f"GET {one}/revisions/{{version}}", f"{here}/revisions/1", None),
        (f"GET {one}/revisions/{{version}}/diff", f"{here}/revisions/1/diff", None),
        (f"POST {one}/context", f"{here}/context", {"message": QUESTION}),
        (f"POST {one}/trace", f"{here}/trace", {"text": "T3"}),
        (f"GET {one}/pins", f"{here}/pins", None),
        (f"POST {one}/pins", f"{here}/pins", {"text": "Never shout."}),
        ("POST /v1/search", "/v1/search", {"q": "T3"}),
        ("POST /v1/ask", "/v1/ask", {"messages": [{"role": "user", "content": "Hello"}], "stream": False}),
        ("POST /v1/summarize", "/v1/summarize", {"messages": [{"role": "user", "content": "T1 was said."}]}),
        ("POST /v1/message/first", "/v1/message/first", say),
        ("POST /v1/message", "/v1/message", {**say, "chat_id": str(chat.pk)}),
        (f"POST {one}/messages", f"{here}/messages", {"message": "And T5?"}),
        ("POST /v1/chats", "/v1/chats", {"title": "New"}),
        (
            "POST /v1/chat/completions",
            "/v1/chat/completions",
            {"model": "arco", "messages": [{"role": "user", "content": "And T6?"}]},
        ),
        ("POST /v1/embeddings", "/v1/embeddings", {"model": "arco", "input": "Hello"}),
        ("POST /v1/responses", "/v1/responses", {"model": "arco", "input": "And T8?"}),
        (f"GET {response}", f"/v1/responses/{made['id']}?stream=true", None),
        (f"GET {response}/input_items", f"/v1/responses/{made['id']}/input_items", None),
        (f"POST {response}/cancel", f"/v1/responses/{made['id']}/cancel", None),
        (f"DELETE {response}", f"/v1/responses/{made['id']}", None),
        ("DELETE /v1/chats", "/v1/chats?search=new", None),
        (f"PATCH {one}", there, {"title": "Spare", "options": {"recall": "off"}}),
        (f"POST {message}/regenerate", f"{here}/messages/{reply}/regenerate", {"stream": False}),
        (f"POST {message}/cancel", f"{here}/messages/{reply}/cancel", {}),
        (f"PATCH {message}", f"{here}/messages/{question}", {"content": "What was said of T2?"}),
        (f"POST {one}/brief/pause", f"{here}/brief/pause", {}),
        (f"POST {one}/brief/resume", f"{here}/brief/resume", {}),
        (f"POST {one}/resummarize", f"{here}/resummarize", {"mode": "rebuild"}),
        (f"POST {one}/revisions/{{version}}/restore", f"{here}/revisions/1/restore", {}),
        (f"POST {one}/brief/clear", f"{here}/brief/clear", {}),
        (f"PATCH {one}/pins/{{pin_id}}", f"{here}/pins/{pin['id']}", {"scope": "person"}),
        (f"DELETE {one}/pins/{{pin_id}}", f"{here}/pins/{pin['id']}", None),
        (f"DELETE {message}", f"{here}/messages/{question}", None),
        ("GET /v1/me/export", "/v1/me/export", None),
        ("POST /v1/chats/import", "/v1/chats/import", [claude("c1")]),
        (f"DELETE {one}", there, None),
        ("DELETE /v1/auth/tokens/{token_id}", f"/v1/auth/tokens/{token_id}", None),
    ]


def test_answers_equal_the_frozen_ones(alice: Client, upstream: FakeUpstream) -> None:
    Worker.objects.create(pk="w")
    upstream.behave("normal", lane="complete")
    marks, answers = Marks(), {}
    calls = script(alice)
    for name, path, body in calls:
        send: Callable[..., httpx.Response] = getattr(alice.http, name.split(" ")[0].lower())
        answers[name] = masked(send(path) if body is None else send(path, json=body), marks)
    if os.environ.get("FREEZE"):
        FROZEN.write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n")
    frozen = json.loads(FROZEN.read_text())
    for name in frozen:
        assert json.loads(json.dumps(answers[name])) == frozen[name], name
    known = {f"{one.method} {one.path}" for one in operations()}
    assert known - {name for name, _, _ in calls} - LEFT_OUT == set()
