"""Recall by meaning in tests: by pgvector on PostgreSQL, if its server has it; on SQLite by a twin in plain Python."""

import pytest
from django.db import connection

from chatmemory.database import vector_field
from chatmemory.database.owned import ChatKey
from memory.models import MessageEmbedding
from memory.recall import embeddings
from memory.recall.embeddings import MAX_NEAREST, NEWEST
from memory.recall.ranking import Near, nearness


def add_pgvector() -> bool:
    """Add the extension to this database; False if its server has none."""
    if connection.vendor != "postgresql":
        return False
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'")
        if cursor.fetchone() is None:
            return False
        cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
    vector_field.ensure()
    return True


def enable_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this test store and compare vectors, whatever the database."""
    embeddings._has_pgvector.cache_clear()
    if not add_pgvector():
        if connection.vendor == "postgresql":
            pytest.skip("needs pgvector")
        monkeypatch.setattr(vector_field, "is_pgvector", lambda: True)
        monkeypatch.setattr(embeddings, "nearest_messages", nearest_by_hand)


def nearest_by_hand(chat: ChatKey, vector: list[float]) -> tuple[Near, ...]:
    """What `embeddings.nearest_messages` should return, computed in plain Python."""
    rows = MessageEmbedding.objects.filter(**chat.columns).order_by("-seq").values_list("seq", "vector")
    products = {
        seq: sum(a * b for a, b in zip(vector, stored, strict=True))
        for seq, stored in rows[:NEWEST]
        if len(stored) == len(vector)
    }
    best = sorted(products, key=lambda seq: (-products[seq], -seq))[:MAX_NEAREST]
    usual = sum(products.values()) / len(products) if products else 0.0
    return tuple(map(Near, best, nearness([products[seq] for seq in best], usual)))
