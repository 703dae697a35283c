"""Every promise with each optional part absent, refusing connections, and hanging.

Everything must be answered as with the part, in about the same time, and memory must catch up at the end; then the
invariants are checked. What the parts do is tested elsewhere.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from uuid import UUID

import httpx
import pytest
from django.db import connection

from memory.models import ChatEmbeddings, SummaryRevision
from tests.faults.bench import scene
from tests.faults.bench.delays import SLICES, TRIES, measure, most, p95
from tests.faults.bench.forgetting import gone
from tests.faults.bench.scene import Check, Scene
from tests.processes.prompts import code
from tests.processes.talking import LOW, say, settled, talk
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client
from tests.support.processes import KEY, Product, wait_for
from tests.support.supervised import Supervised

ALL = {f"P{number}" for number in range(1, 33)}
CHECKS: tuple[tuple[str, Check], ...] = (
    ("P28", scene.all_that_a_client_does),
    ("P2", scene.a_key_is_one_turn),
    ("P3 P17", scene.many_write_at_once),
    ("P4 P7", scene.an_upstream_that_fails),
    ("P5 P16", scene.who_leaves_finds_it_all),
    ("P12", scene.summaries_that_fail_block_nobody),
    ("P20", scene.hostile_input_is_refused),
    ("P21 P24", scene.strangers_find_nothing),
    ("P22", scene.limits_are_exact),
    ("P31", scene.orders_are_counted),
    ("P26", scene.staff_can_look),
    ("P32", scene.tokens_are_taken_back),
    ("P29", scene.no_call_holds_memory),
    ("P25", scene.what_is_deleted_is_in_no_prompt),
    ("P15", scene.the_database_drops_everybody),
    ("P1 P6 P14", scene.killed),
)
"""The checks made while the part is missing, in this order."""
AFTERWARDS = {"P10", "P11", "P13", "P25", "P27", "P30"}
"""Promises that are also checked before and after these."""
UNTOUCHED = {
    "P8": "a reply's stream is read before any part hears of it; an embeddings endpoint's answer has a cap of its own",
    "P9": "the same; what an embeddings endpoint answers is checked in tests/services/memory/recall/test_embeddings.py",
    "P18": "no part keeps anything on our disk, or is asked where there is room",
    "P19": "no part is asked for the time: order is seq, leases and limits go by the database's clock",
    "P23": "parts bring ids of messages, never text: what is found is quoted as if it had been found without them",
}
"""Promises that no optional part can affect, and why. pgvector can neither refuse nor hang: it is in the database."""

HANGS_SECONDS = 60.0
"""How long a hanging embeddings endpoint stays silent."""
EMBEDDINGS = {"MEMORY_EMBEDDINGS_MODEL": "text-embedding-3-small", "MEMORY_EMBEDDINGS_DIMENSIONS": "16"}
ENV = {
    **LOW,
    "MEMORY_MIN_RETAINED": "0",
    "MEMORY_FOLD_BACKOFF_SECONDS": "0.1",
    "REPLY_LEASE_SECONDS": "12",  # a server without CPU time for seconds keeps its replies
    "RATE_LIMITS": "on",
    "LIMIT_REQUESTS_PER_MINUTE": "0",
    "LIMIT_TOKENS_PER_DAY": "0",
}

Break = Callable[[], None]


class Part:
    """An optional part in use: the environment of the processes, and how it fails."""

    def __init__(self, env: dict[str, str], fail: Break, heal: Break) -> None:
        self.env, self.fail, self.heal = env, fail, heal


@pytest.fixture
def part(request: pytest.FixtureRequest, fake: FakeUpstream) -> Part:
    """The part and the failure that the parameter names: `<part> <how>`."""
    name, _, how = request.param.rpartition(" ")
    ways = {"absent": "normal", "refusing": "status", "hanging": "slow"}
    fake.embeddings.slow_seconds = HANGS_SECONDS
    env = EMBEDDINGS if name == "pgvector" or how != "absent" else {}
    return Part(env, lambda: _embeddings(fake, ways[how]), lambda: _embeddings(fake, "normal"))


def _embeddings(fake: FakeUpstream, how: str) -> None:
    fake.embeddings.how = how


WITHOUT = ["embeddings absent", "embeddings refusing", "embeddings hanging", "pgvector absent"]


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.promise(
    "P1",
    "P2",
    "P3",
    "P4",
    "P5",
    "P6",
    "P7",
    "P10",
    "P11",
    "P12",
    "P13",
    "P14",
    "P15",
    "P16",
    "P17",
    "P20",
    "P21",
    "P22",
    "P24",
    "P25",
    "P26",
    "P27",
    "P28",
    "P29",
    "P30",
    "P31",
    "P32",
)
@pytest.mark.parametrize("part", WITHOUT, indirect=True)
def test_everything_is_answered_and_memory_catches_up(
    product: Product, fake: FakeUpstream, part: Part
) -> None:
    product.env |= ENV | part.env
    fake.behave("normal?tokens=60", lane="complete")
    there = _everything_there(product, fake)
    if "MEMORY_EMBEDDINGS_MODEL" in part.env:
        vectors = ChatEmbeddings.objects.filter(pk=there.chat_id, through_seq__gt=0)
        wait_for(vectors.exists, "vectors")
    part.fail()
    _others_wait_no_longer(product)
    for _, check in CHECKS:
        check(there)
    part.heal()
    _catches_up(there)


def test_every_promise_is_tried_or_cannot_be_touched() -> None:
    tried = {promise for promises, _ in CHECKS for promise in promises.split()} | AFTERWARDS
    marks: list[pytest.Mark] = test_everything_is_answered_and_memory_catches_up.pytestmark  # type: ignore[attr-defined]  # pytest's
    (said,) = [set(mark.args) for mark in marks if mark.name == "promise"]
    assert tried == said == ALL - set(UNTOUCHED)


def _everything_there(product: Product, fake: FakeUpstream) -> Scene:
    """Start all processes, and make a chat whose first turns are folded."""
    servers = product.server(), product.server()
    worker = Supervised(product)
    client = product.client()
    chat_id, _ = talk(client, range(12))
    wait_for(lambda: settled(chat_id), "a fold with everything there")
    return Scene(product, fake, servers, worker, chat_id)


def _others_wait_no_longer(product: Product) -> None:
    """Other users' calls are not slowed down while somebody's turns run into the failing part (P30)."""
    bob, carol = product.client("bob"), product.client("carol")
    chat_id = UUID(carol.ask("Hello")["chat_id"])
    for _ in range(TRIES):
        alone, beside = list[float](), list[float]()
        for _ in range(SLICES // 2):
            alone += measure(bob)
            with _talking(carol, chat_id):
                beside += measure(bob)
        if p95(beside) <= most(p95(alone)):
            return
    raise AssertionError(f"others' calls took {p95(alone):.3f} s, and beside a turn {p95(beside):.3f} s")


@contextmanager
def _talking(client: Client, chat_id: UUID) -> Iterator[None]:
    """Send turn after turn in a thread."""
    over = threading.Event()

    def talk_on() -> None:
        while not over.is_set():
            say(client, "And now?", chat_id)

    with ThreadPoolExecutor(1) as pool:
        talking = pool.submit(talk_on)
        try:
            yield
        finally:
            over.set()
        talking.result()


def _catches_up(there: Scene) -> None:
    """Nothing is lost: all is folded, what was deleted is nowhere, and no log has a key or people's words."""
    product = there.product
    wait_for(lambda: _is_ready(product), "a product that is ready again", timeout=60)
    product.manage("sweep")
    wait_for(lambda: settled(there.chat_id), "a fold of what came meanwhile", timeout=120)
    assert SummaryRevision.objects.filter(chat=there.chat_id, forgotten_at=None).exists()
    there.worker.wait_until_alive()
    there.worker.stop()
    gone(product, code(0))
    logged = product.log_text()
    assert not [word for word in (KEY, scene.SECRET, scene.LIKE_IT) if word in logged]
    if connection.vendor == "postgresql":  # tasks whose connection was cut fail
        failed = [line for line in product.errors() if line["event"] == "task failed"]
        product.expected |= (
            {"task failed"} if all("OperationalError" in line["reason"] for line in failed) else set()
        )


def _is_ready(product: Product) -> bool:
    time.sleep(0.1)
    return httpx.get(f"{product.url}/readyz", timeout=10).status_code == 200
