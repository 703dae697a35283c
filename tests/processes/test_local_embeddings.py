"""Embeddings without an upstream, with real processes: forked workers load the model, and so does the server.

Needs the extra `check`, which contains the model: `make test-embeddings`.
"""

from __future__ import annotations

from functools import partial
from uuid import UUID

import pytest

from chatmemory.text.markers import RECALL_HEADING
from memory.models import ChatEmbeddings, ContextRecord
from tests.processes.talking import LOW, question, say
from tests.support.fakes.upstream import FakeUpstream
from tests.support.local_model import minilm
from tests.support.processes import Product
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.embeddings]

FACT = "Our cat Mimi is afraid of thunder."
QUESTION = "Which pet fears storms?"
"""Has the same meaning as the fact, but no word in common."""
TURNS = 9
"""Enough turns that the fact is in none of the last ones."""


def embedded(chat_id: UUID, messages: int) -> bool:
    return ChatEmbeddings.objects.filter(pk=chat_id, through_seq=messages).exists()


def test_what_a_worker_embedded_a_server_finds(product: Product, fake: FakeUpstream) -> None:
    product.env |= LOW | {
        "MEMORY_EMBEDDINGS_FOLDER": str(minilm(product.folder / "model")),
        "MEMORY_EMBEDDINGS_SECONDS": "5",
    }
    product.worker()
    product.server()
    client = product.client()
    chat_id = UUID(say(client, FACT)[0].data["chat_id"])
    for number in range(TURNS):
        say(client, question(number), chat_id)
    wait_for(partial(embedded, chat_id, 2 * (TURNS + 1)), "vectors of every message", timeout=60)
    say(client, QUESTION, chat_id)
    assert FACT in fake.calls("stream")[-1].text.split(RECALL_HEADING)[1]
    assert fake.embeddings.asked == []
    assert not ContextRecord.objects.exclude(unrepresented=0).exists()
