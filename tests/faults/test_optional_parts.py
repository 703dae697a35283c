"""An embeddings endpoint that refuses or hangs: every call is answered, in time, and memory catches up at the end."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest

from conversations.models import Message
from memory.models import ChatEmbeddings
from tests.processes.prompts import code
from tests.processes.talking import LOW, say, settled, talk
from tests.support.fakes.upstream import FakeUpstream
from tests.support.processes import Product
from tests.support.vectors import add_pgvector
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PATIENCE_SECONDS = 20.0
"""Seconds for one call on a busy machine. A call that hangs takes far longer."""
EMBEDDINGS = {"MEMORY_EMBEDDINGS_MODEL": "text-embedding-3-small", "MEMORY_EMBEDDINGS_DIMENSIONS": "16"}


@contextmanager
def timed() -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < PATIENCE_SECONDS


@pytest.mark.parametrize("how", ["status", "slow"])
def test_optional_parts_may_fail_and_memory_catches_up(product: Product, fake: FakeUpstream, how: str) -> None:
    if not add_pgvector():
        pytest.skip("this database cannot have pgvector")
    product.env |= LOW | EMBEDDINGS | {"MEMORY_MIN_RETAINED": "0"}
    fake.behave("normal?tokens=60", lane="complete")
    product.server()
    product.worker()
    client = product.client()
    chat_id, _ = talk(client, range(12))
    wait_for(lambda: settled(chat_id), "a fold with everything there")
    wait_for(ChatEmbeddings.objects.filter(pk=chat_id, through_seq__gt=0).exists, "vectors")

    fake.embeddings.how, fake.embeddings.slow_seconds = how, 60.0
    chat = f"chats/{chat_id}"
    for number in range(12, 20):
        with timed():
            replied = say(client, f"And in turn {number}? {'word ' * 200}", chat_id)
    first, reply, third = (Message.objects.get(chat=chat_id, seq=seq).pk for seq in (1, 2, 3))
    for method, path, body in (
        ("DELETE", f"{chat}/messages/{first}", None),
        ("DELETE", f"{chat}/messages/{reply}", None),
        ("PATCH", f"{chat}/messages/{third}", {"content": "redacted"}),
        ("POST", f"{chat}/context", {"message": "who has the code of the locker?"}),
        ("POST", "search", {"q": "note"}),
        ("POST", f"{chat}/messages/{replied[-1].data['message']['id']}/regenerate", {"stream": False}),
        ("POST", f"{chat}/resummarize", {"mode": "rebuild"}),
        ("POST", "message/first", {"message": "And in another chat?", "stream": False}),
    ):
        with timed():
            answer = client.http.request(method, f"/v1/{path}", json=body)
        assert answer.status_code < 300, (path, answer.text)
    with timed():
        say(client, "And what do you know now?", chat_id)
    assert code(0) not in fake.calls("stream")[-1].text

    fake.embeddings.how = "normal"
    product.manage("sweep")
    wait_for(lambda: settled(chat_id), "a fold of what came meanwhile", timeout=120)
    last = Message.objects.filter(chat=UUID(str(chat_id))).order_by("-seq")[0].seq
    through = ChatEmbeddings.objects.filter(pk=chat_id, through_seq__gt=last - 12)
    wait_for(lambda: product.manage("sweep") is None or through.exists(), "vectors of what came meanwhile")
