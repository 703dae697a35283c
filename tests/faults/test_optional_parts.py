"""What the product can do without: each optional part absent, refusing or hanging, while a client does all it can do.

Everything must be answered as with the part there, in about the same time, and memory must catch up in the end; then
the invariants are checked. What the parts are for is other tests' business.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import httpx
import pytest

from memory.models import ChatEmbeddings, SummaryRevision
from tests.fakes.upstream import FakeUpstream
from tests.faults.redis_server import PrivateRedis
from tests.faults.table import Tally
from tests.live import Client
from tests.processes.harness import Product, wait_for
from tests.processes.talking import LOW, say, settled, talk

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PATIENCE_SECONDS = 6.0
"""For one call, on a machine that has other work to do. Two timeouts of a part that hangs are two seconds."""
READY_SECONDS = 3.5
"""For /readyz, which itself waits two seconds at most."""
EMBEDDINGS = {"MEMORY_EMBEDDINGS_MODEL": "text-embedding-3-small", "MEMORY_EMBEDDINGS_DIMENSIONS": "16"}

Break = Callable[[], None]


class Part:
    """An optional part in use: what the processes are told of it, how it fails, and whether /readyz names it."""

    def __init__(self, env: dict[str, str], fail: Break, heal: Break, named: str = "") -> None:
        self.env, self.fail, self.heal, self.named = env, fail, heal, named


@pytest.fixture
def part(request: pytest.FixtureRequest, fake: FakeUpstream) -> Part:
    """The part and the way it fails that the parameter names: `<part> <how>`."""
    name, _, how = request.param.rpartition(" ")
    if name in ("embeddings", "pgvector"):
        ways = {"absent": "normal", "refusing": "status", "hanging": "slow"}
        env = EMBEDDINGS if name == "pgvector" or how != "absent" else {}
        return Part(env, lambda: _embeddings(fake, ways[how]), lambda: _embeddings(fake, "normal"))
    if how == "absent":
        return Part({"REDIS_URL": "", "Q_BROKER": "orm"}, _nothing, _nothing)
    redis: PrivateRedis = request.getfixturevalue("redis")
    fail = redis.kill if how == "refusing" else redis.freeze
    broker = "redis" if name == "Redis broker" else "orm"
    env = {"REDIS_URL": redis.url, "Q_BROKER": broker}
    return Part(env, fail, redis.revive, "queue" if broker == "redis" else "")


def _nothing() -> None:
    pass


def _embeddings(fake: FakeUpstream, how: str) -> None:
    fake.embeddings.how = how


WITH_REDIS = [
    pytest.param(f"{name} {how}", marks=pytest.mark.services)
    for name in ("Redis broker", "unused Redis")
    for how in ("refusing", "hanging")
]
WITHOUT = [
    "Redis broker absent",
    "embeddings absent",
    "embeddings refusing",
    "embeddings hanging",
    "pgvector absent",
]


@pytest.mark.promise(
    "P1",
    "P4",
    "P6",
    "P12",
    "P13",
    "P25",
    "P28",
    injected="each optional part absent, refusing and hanging while a client does all it can",
)
@pytest.mark.parametrize("part", [*WITHOUT, *WITH_REDIS], indirect=True)
def test_everything_is_answered_and_memory_catches_up(
    product: Product, fake: FakeUpstream, part: Part, tally: Tally
) -> None:
    product.env |= LOW | part.env
    product.env |= {"MEMORY_MIN_RETAINED": "0", "WORKER_CANARY_SECONDS": "1", "WORKER_PATIENCE_SECONDS": "10"}
    product.worker()
    product.server()
    client = product.client()
    chat_id, _ = talk(client, range(12))
    wait_for(lambda: settled(chat_id), "a fold with everything there")
    if "MEMORY_EMBEDDINGS_MODEL" in part.env:
        wait_for(lambda: ChatEmbeddings.objects.filter(pk=chat_id, through_seq__gt=0), "vectors")
    part.fail()
    tally(_all_that_a_client_does(client, fake, chat_id))
    if part.named:
        assert part.named in _not_ready(product)
    part.heal()
    wait_for(lambda: _is_ready(product), "a product that is ready again", timeout=60)
    product.manage("sweep")
    wait_for(lambda: settled(chat_id), "a fold of what came meanwhile", timeout=60)
    assert SummaryRevision.objects.filter(chat=chat_id, forgotten_at=None).exists()


def _all_that_a_client_does(client: Client, fake: FakeUpstream, chat_id: UUID) -> int:
    """Every kind of call; the answers must be those of a healthy product. Returns how many that were."""
    chat = f"chats/{chat_id}"
    calls = 0

    @contextmanager
    def timed() -> Iterator[None]:
        nonlocal calls
        began = time.monotonic()
        yield
        calls += 1
        assert time.monotonic() - began < PATIENCE_SECONDS

    def call(method: str, path: str, status: int, **options: Any) -> httpx.Response:
        with timed():
            answer: httpx.Response = getattr(client, method)(path, **options)
        assert answer.status_code == status, answer.text
        return answer

    for number in range(12, 16):
        with timed():
            replied = say(client, f"And in turn {number}? {'word ' * 200}", chat_id)
    rows = call("get", f"{chat}/messages", 200, params={"limit": 200}).json()["results"]
    asked = sorted((row for row in rows if row["role"] == "user"), key=lambda row: int(row["seq"]))
    call("patch", f"{chat}/messages/{asked[2]['id']}", 200, json={"content": "redacted"})
    call("delete", f"{chat}/messages/{asked[1]['id']}", 204)
    call("patch", chat, 200, json={"policy": "interval"})
    call("post", f"{chat}/resummarize", 202, json={"mode": "rebuild"})
    call("get", "search", 200, params={"q": "note"})
    call("post", f"{chat}/context", 200, json={"message": "What was noted?"})
    last = replied[-1].data["message"]["id"]
    with timed():
        again = client.events("POST", f"{chat}/messages/{last}/regenerate", json={})
    assert again[-1].name == "message.completed", again[-1]
    _cancel(client, fake, chat_id, call)
    spare = call("post", "chats", 201, json={"title": "spare"}).json()["id"]
    with timed():
        say(client, "Hello", UUID(spare))
    call("delete", f"chats/{spare}", 204)
    return calls


def _cancel(client: Client, fake: FakeUpstream, chat_id: UUID, call: Callable[..., httpx.Response]) -> None:
    fake.hold("stream")
    body = {"message": "Never mind", "chat_id": str(chat_id)}
    with client.stream("POST", "message", json=body) as events:
        reply = next(events).data["message_id"]
        answer = call("post", f"chats/{chat_id}/messages/{reply}/cancel", 200)
        assert answer.json()["message"]["status"] == "cancelled"
        assert list(events)[-1].name == "message.cancelled"
    fake.release("stream")


def _not_ready(product: Product) -> set[str]:
    began = time.monotonic()
    answer = httpx.get(f"{product.url}/readyz", timeout=10)
    assert time.monotonic() - began < READY_SECONDS
    assert answer.status_code == 503
    return set(answer.json()["error"]["details"])


def _is_ready(product: Product) -> bool:
    time.sleep(0.1)
    return httpx.get(f"{product.url}/readyz", timeout=10).status_code == 200
