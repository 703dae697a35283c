"""The messages nearest to a question's vector in a chat of 10,000: read and compared in every available way.

With numpy, and by pgvector if the server has it. If a folder with a model is configured, also the time to embed a
question.
"""

from __future__ import annotations

import random
import struct
import time
from math import hypot
from statistics import median

from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection

from benchmarks import bulk
from benchmarks.figures import Figure, Group, percentile
from benchmarks.speech import WORDS
from chatmemory.database import vector_field
from chatmemory.llm import registry
from conversations.models import Chat
from memory.models import MessageEmbedding
from memory.recall.meaning import nearest

MESSAGES = 10_000
ROUNDS = 30
QUESTIONS = 300


def run(owner: User, *, messages: int = MESSAGES) -> Group:
    """Measure the milliseconds of one look-up, given the question's vector."""
    chance, dimensions = random.Random(3), settings.MEMORY_EMBEDDINGS_DIMENSIONS
    chat = Chat.objects.create(owner=owner, policy="chunked", title="vectors")
    vectors = {seq: _unit(chance, dimensions) for seq in range(1, messages + 1)}
    _store(chat, vectors)
    figures = [_embedded()] if settings.MEMORY_EMBEDDINGS_FOLDER else []
    figures += [_figure("with numpy", chat, chance, dimensions)]
    if _has_pgvector(chat, vectors):
        figures.append(_figure("by pgvector", chat, chance, dimensions))
    return Group(f"The nearest of {messages:,} messages, {dimensions} numbers each", tuple(figures))


def _has_pgvector(chat: Chat, vectors: dict[int, bytes]) -> bool:
    """Return whether the server has pgvector; if so, create the extension here and store the vectors in its type."""
    if connection.vendor != "postgresql":
        return False
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'")
        if cursor.fetchone() is None:
            return False
        cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
    vector_field.ensure()
    _store(chat, vectors)
    return True


def _store(chat: Chat, vectors: dict[int, bytes]) -> None:
    bulk.insert([MessageEmbedding(chat=chat, seq=seq, vector=vector) for seq, vector in vectors.items()])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _figure(name: str, chat: Chat, chance: random.Random, dimensions: int) -> Figure:
    spent = []
    for _ in range(ROUNDS):
        asked = _unit(chance, dimensions)
        started = time.perf_counter()
        nearest.nearest_messages(chat.pk, asked)
        spent.append((time.perf_counter() - started) * 1000)
    return Figure(
        f"{name}, median", median(spent), "ms", note=f"95th percentile {percentile(spent, 0.95):.1f} ms"
    )


def _embedded() -> Figure:
    """Measure the milliseconds in which the folder's model embeds a question of eight to sixteen words."""
    embedder, chance, spent = registry.embedder(), random.Random(5), []
    for _ in range(QUESTIONS):
        question = f"What did {' '.join(chance.choices(WORDS, k=chance.randint(6, 14)))}?"
        started = time.perf_counter()
        embedder.embed_now([question], timeout=10.0)
        spent.append((time.perf_counter() - started) * 1000)
    note = f"95th percentile {percentile(spent, 0.95):.1f} ms; {embedder.dimensions} numbers"
    return Figure("a question's vector by the folder's model, median", median(spent), "ms", 20.0, note=note)


def _unit(chance: random.Random, dimensions: int) -> bytes:
    values = [chance.gauss(0.02, 1) for _ in range(dimensions)]
    length = hypot(*values)
    return struct.pack(f"<{dimensions}f", *(value / length for value in values))
