"""The product in use while an optional part of it is missing, and the promises that must hold nonetheless.

Each function tests one or more promises on the running product, where possible only through the API. All run one
after another in one scene, so each restores the state it found, except `killed`, the last one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any
from uuid import UUID

import httpx
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client as Browser

from chatmemory.runtime.processes import Child
from conversations.models import ActiveReply, Allowance, Message
from memory.models import ConversationBrief
from tests.api.talking import Turn, error, final, opened
from tests.faults.bench.resident import MOST, resident
from tests.processes.prompts import code
from tests.processes.talking import say
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, joined
from tests.support.processes import Product, wait_for
from tests.support.supervised import Supervised

PATIENCE_SECONDS = 20.0
"""Seconds for one call on a busy machine. A call that hangs takes far longer."""
AT_ONCE = 12
LIMIT = 3
SECRET = "only alice has the combination of the cabinet"
LIKE_IT = "who has the code of the locker?"
"""The same in other words, which only embeddings can match."""
JSON = {"Content-Type": "application/json"}
HOSTILE = (" " * 100_000, "a" * 100_000, "<|endoftext|>" * 50, "\x00", "\ud83d", "=== END_NEW_TURNS ===")


@dataclass
class Scene:
    """Two servers, a worker, their upstream, and a chat of alice's whose first turns are folded."""

    product: Product
    fake: FakeUpstream
    servers: tuple[Child, Child]
    worker: Supervised
    chat_id: UUID
    calls: int = 0
    here: Client = field(init=False)
    there: Client = field(init=False)

    def __post_init__(self) -> None:
        self.here, self.there = self.both("alice")

    def both(self, user: str) -> tuple[Client, Client]:
        """Return a client for each server, with the same token of that user."""
        there = self.product.client(user)
        here = Client(self.product.urls[self.servers[0].name], there.token)
        self.product.clients.append(here)
        return here, there

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Check that a call takes no longer than on a healthy product."""
        began = time.monotonic()
        yield
        self.calls += 1
        assert time.monotonic() - began < PATIENCE_SECONDS

    def call(self, method: str, path: str, status: int, **options: Any) -> httpx.Response:
        """Make a call of alice's and check the status of its answer."""
        with self.timed():
            answer: httpx.Response = getattr(self.here, method)(path, **options)
        assert answer.status_code == status, answer.text
        return answer

    def at_once(self, clients: tuple[Client, Client], path: str, **options: Any) -> list[httpx.Response]:
        """Return the answers to `AT_ONCE` simultaneous calls, alternating between the servers."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            posted = [
                pool.submit(client.post, path, **options) for client, _ in zip(cycle(clients), range(AT_ONCE))
            ]
            answers = [one.result() for one in posted]
        self.calls += AT_ONCE
        return answers


Check = Callable[[Scene], None]


def all_that_a_client_does(scene: Scene) -> None:
    """Every kind of call is answered as by a healthy product."""
    chat, call = f"chats/{scene.chat_id}", scene.call
    for number in range(12, 16):
        with scene.timed():
            replied = say(scene.here, f"And in turn {number}? {'word ' * 200}", scene.chat_id)
    rows = call("get", f"{chat}/messages", 200, params={"limit": 200}).json()["results"]
    asked = sorted((row for row in rows if row["role"] == "user"), key=lambda row: int(row["seq"]))
    call("patch", f"{chat}/messages/{asked[2]['id']}", 200, json={"content": "redacted"})
    call("patch", chat, 200, json={"policy": "interval"})
    call("post", f"{chat}/resummarize", 202, json={"mode": "rebuild"})
    call("get", "search", 200, params={"q": "note"})
    call("post", f"{chat}/context", 200, json={"message": "What was noted?"})
    last = replied[-1].data["message"]["id"]
    with scene.timed():
        again = scene.here.events("POST", f"{chat}/messages/{last}/regenerate", json={})
    assert again[-1].name == "message.completed", again[-1]
    _cancel(scene)
    spare = call("post", "chats", 201, json={"title": "spare"}).json()["id"]
    with scene.timed():
        say(scene.here, "Hello", UUID(spare))
    call("delete", f"chats/{spare}", 204)


def _cancel(scene: Scene) -> None:
    scene.fake.hold("stream")
    body = {"message": "Never mind", "chat_id": str(scene.chat_id)}
    with scene.here.stream("POST", "message", json=body) as events:
        reply = next(events).data["message_id"]
        answer = scene.call("post", f"chats/{scene.chat_id}/messages/{reply}/cancel", 200)
        assert answer.json()["message"]["status"] == "cancelled"
        assert list(events)[-1].name == "message.cancelled"
    scene.fake.release("stream")


def what_is_deleted_is_in_no_prompt(scene: Scene) -> None:
    """Deletes the first turn, which the summary mentions. That no trace is left is checked at the end."""
    for row in Message.objects.filter(chat=scene.chat_id, seq__lte=2):
        scene.call("delete", f"chats/{scene.chat_id}/messages/{row.pk}", 204)
    since = time.monotonic()
    with scene.timed():
        say(scene.here, "And what do you know now?", scene.chat_id)
    # A fold that has read the turn before may be calling now; its result is never published.
    (prompt,) = [request.text for request in scene.fake.calls("stream") if request.at > since]
    assert code(0) not in prompt


def a_key_is_one_turn(scene: Scene) -> None:
    """Also for many simultaneous requests at two servers; a different body is refused."""
    before = len(scene.fake.calls("stream"))
    key = {"headers": {"Idempotency-Key": "one of many"}}
    answers = scene.at_once(
        (scene.here, scene.there), "message/first", json={"message": "x", "stream": False}, **key
    )
    assert {answer.status_code for answer in answers} == {200}, [answer.text for answer in answers]
    assert len({Turn.of(answer.json()) for answer in answers}) == 1
    assert len(scene.fake.calls("stream")) == before + 1
    error(scene.there.post("message/first", json={"message": "y"}, **key), 422, "idempotency_mismatch")


def many_write_at_once(scene: Scene) -> None:
    """Many send into one chat: those not accepted get a 409. The invariants check that turns were serialized."""
    body = {"message": "Me, too", "chat_id": str(scene.chat_id), "stream": False}
    codes = [answer.status_code for answer in scene.at_once((scene.here, scene.there), "message", json=body)]
    assert {200} <= set(codes) <= {200, 409}, codes


def an_upstream_that_fails(scene: Scene) -> None:
    """A reply that broke off is not complete, a failed one says so; both are kept, and can be answered again."""
    for how, status in (("cut?after=1500", "incomplete"), ("status?code=500", "failed")):
        scene.fake.script("stream", how)
        with scene.timed(), opened(scene.here, f"Hello {'word ' * 99}", str(scene.chat_id)) as (turn, events):
            list(events)
        assert final(scene.here, turn)["status"] == status
        with scene.timed():
            again = scene.here.events("POST", f"{turn.path}/regenerate", json={})
        assert again[-1].name == "message.completed"


def who_leaves_finds_it_all(scene: Scene) -> None:
    """A client leaves, and reads the reply at the other server. No database connection is held in between."""
    scene.fake.hold("stream")
    with opened(scene.here, "I will be back", str(scene.chat_id)) as (turn, _):
        pass
    if connection.vendor == "postgresql":
        wait_for(lambda: _in_transactions() == 0, "no transaction while a stream waits")
    with scene.there.stream("GET", f"{turn.path}/stream") as events:
        scene.fake.release("stream")
        heard = list(events)
    assert heard[-1].name == "message.completed"
    assert joined(heard) == final(scene.here, turn)["content"]


def _in_transactions() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'"
        )
        return int(cursor.fetchone()[0])


def summaries_that_fail_block_nobody(scene: Scene) -> None:
    """A chat that comes due while summaries fail goes on."""
    scene.fake.behave("status?code=500", lane="complete")
    for number in range(16, 20):
        with scene.timed():
            say(scene.here, f"Turn {number}: {'word ' * 300}", scene.chat_id)
    scene.fake.behave("normal?tokens=60", lane="complete")


def hostile_input_is_refused(scene: Scene) -> None:
    """Input that might break prompts or search is answered in time, never by a 500."""
    for text in HOSTILE:
        body = {"content": json.dumps({"message": text, "stream": False}), "headers": JSON}
        typed = text[:200].encode("utf-8", "replace").decode()
        for method, path, options in (
            ("post", f"chats/{scene.chat_id}/context", body),
            ("post", "message/first", body),
            ("get", "search", {"params": {"q": typed}}),
        ):
            with scene.timed():
                answer = getattr(scene.here, method)(path, **options)
            assert answer.status_code in (200, 400, 413, 422), (path, text[:20], answer.text)


def strangers_find_nothing(scene: Scene) -> None:
    """Asking for what another user said, in the same or other words, finds nothing: in no answer, in no prompt."""
    with scene.timed():
        say(scene.here, SECRET, scene.chat_id)
    eve = scene.product.client("eve")
    own = UUID(eve.ask("Hello")["chat_id"])
    for method, path in (
        ("get", f"chats/{scene.chat_id}"),
        ("get", f"chats/{scene.chat_id}/messages"),
        ("post", f"chats/{scene.chat_id}/resummarize"),
        ("delete", f"chats/{scene.chat_id}"),
    ):
        with scene.timed():
            assert getattr(eve, method)(path).status_code == 404
    since = time.monotonic()
    for words in (SECRET[-20:], LIKE_IT):
        with scene.timed():
            assert "combination" not in eve.get("search", params={"q": words}).text
            say(eve, words, own)
    prompts = [request.text for request in scene.fake.calls("stream") if request.at > since]
    assert len(prompts) == 2
    assert not any("alice" in prompt or code(3) in prompt for prompt in prompts)


def limits_are_exact(scene: Scene) -> None:
    """In a burst at two servers, exactly as many calls as allowed reach the upstream."""
    both = scene.both("limited")
    Allowance.objects.create(user=User.objects.get(username="limited"), requests_per_minute=LIMIT)
    before = len(scene.fake.calls("stream"))
    answers = scene.at_once(both, "message/first", json={"message": "Let me in", "stream": False})
    codes = sorted(answer.status_code for answer in answers)
    assert codes == [200] * LIMIT + [429] * (AT_ONCE - LIMIT)
    assert len(scene.fake.calls("stream")) == before + LIMIT


def orders_are_counted(scene: Scene) -> None:
    """As many rebuilds as allowed are accepted; the others are refused, at either server."""
    both = scene.both("orderly")
    chats = [both[0].ask("Hello")["chat_id"] for _ in range(2 * LIMIT)]
    owner = User.objects.get(username="orderly")
    Allowance.objects.update_or_create(user=owner, defaults={"resummarize_per_hour": LIMIT})
    codes = []
    for client, chat in zip(cycle(both), chats):
        with scene.timed():
            codes.append(client.post(f"chats/{chat}/resummarize", json={"mode": "rebuild"}).status_code)
    assert codes == [202] * LIMIT + [429] * LIMIT


def staff_can_look(scene: Scene) -> None:
    """The pages that show the state of the parts work, and execute nothing."""
    scene.call("patch", f"chats/{scene.chat_id}", 200, json={"title": "<script>alert(1)</script>"})
    root = User.objects.create_superuser("root")
    browser = Browser()
    browser.force_login(root)
    cookies = {name: morsel.value for name, morsel in browser.cookies.items()}
    brief = ConversationBrief._meta
    pages = ("", "conversations/chat/", f"{brief.app_label}/{brief.model_name}/")
    for page in pages:
        with scene.timed():
            shown = httpx.get(f"{scene.product.url}/admin/{page}", cookies=cookies, timeout=30)
        assert shown.status_code == 200, page
        assert "<script>alert" not in shown.text
        assert "script-src" in shown.headers["content-security-policy"]


def tokens_are_taken_back(scene: Scene) -> None:
    """Revoked tokens stop working at once on each server."""
    both = scene.both("leaving")
    for client in both:
        assert client.get("me").status_code == 200
    assert both[0].delete("auth/tokens").status_code == 204
    for client in both:
        with scene.timed():
            assert client.get("me").status_code == 401


def no_call_holds_memory(scene: Scene) -> None:
    """Many simultaneous calls that need the part do not make the servers' memory grow."""
    held = [resident(server.process.pid) for server in scene.servers]
    path = f"chats/{scene.chat_id}/context"
    for _ in range(3):
        answers = scene.at_once((scene.here, scene.there), path, json={"message": LIKE_IT})
        assert {answer.status_code for answer in answers} == {200}
    for server, before in zip(scene.servers, held, strict=True):
        assert resident(server.process.pid) < before + MOST


def the_database_drops_everybody(scene: Scene) -> None:
    """As when PostgreSQL restarts: at most one failed request per pooled connection, and then none."""
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        dropped = int(cursor.fetchone()[0])
    codes = [scene.here.get("me").status_code for _ in range(dropped)]
    assert set(codes) <= {200, 503}, codes
    # A request may arrive at the moment in which a connection is ended: it is told so, and logged.
    scene.product.expected |= {"database unavailable", "Service Unavailable: /v1/me"}
    for _ in range(3):
        scene.call("get", "me", 200)


def killed(scene: Scene) -> None:
    """Kills the worker, and the server that writes a reply: the question is kept, the reply ended elsewhere."""
    assert scene.worker.starts == 1, "no worker ends because a part is away"
    scene.worker.kill()
    scene.fake.hold("stream")
    with opened(scene.here, "Are you still there?", str(scene.chat_id)) as (turn, _):
        scene.product.kill(scene.servers[0])
    scene.fake.release("stream")
    assert Message.objects.get(pk=turn.question).content == "Are you still there?"
    wait_for(lambda: not ActiveReply.objects.exists(), "the end of a reply whose server is gone")
    ended = final(scene.there, turn)
    assert (ended["status"], ended["error"]["code"]) == ("failed", "interrupted"), "nothing of it had come"
