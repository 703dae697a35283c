"""The turns of a chat whose vectors are nearest to a question's, exactly: by pgvector where the database has it.

No index of vectors is needed: a chat is what is looked at, and a chat has some thousands of turns.
"""

from __future__ import annotations

from uuid import UUID

from django.db import connection

from memory.models import TurnEmbedding
from memory.similarity import HAS_NUMPY, nearest, worth
from memory.vector_field import TABLE, as_text, is_pgvector

NEAR = 20
"""Turns that are near, at most."""
NEWEST = 10_000
"""Turns of a chat that are looked at, the newest."""
NEWEST_WITHOUT_NUMPY = 1_000
"""Plain Python compares far more slowly; `python -m benchmarks vectors` tells by how much."""

_BY_PGVECTOR = f"""
    SELECT seq, -(vector <#> %s::vector) FROM (
        SELECT seq, vector FROM {TABLE} WHERE chat_id = %s AND vector_dims(vector) = %s ORDER BY seq DESC LIMIT %s
    ) newest ORDER BY 2 DESC LIMIT %s
"""  # noqa: S608  # our own table's name


def nearest_turns(chat_id: UUID, vector: bytes) -> tuple[int, ...]:
    """Seqs at which turns begin that are near to `vector`, the nearest first."""
    return _by_pgvector(chat_id, vector) if is_pgvector() else _here(chat_id, vector)


def _by_pgvector(chat_id: UUID, vector: bytes) -> tuple[int, ...]:
    with connection.cursor() as cursor:
        cursor.execute(_BY_PGVECTOR, [as_text(vector), chat_id, len(vector) // 4, NEWEST, NEAR])
        found = cursor.fetchall()
    return tuple(found[at][0] for at in worth([product for _, product in found], NEAR))


def _here(chat_id: UUID, vector: bytes) -> tuple[int, ...]:
    rows = TurnEmbedding.objects.filter(chat_id=chat_id).order_by("-seq").values_list("seq", "vector")
    newest = rows[: NEWEST if HAS_NUMPY else NEWEST_WITHOUT_NUMPY]
    found = [(seq, bytes(stored)) for seq, stored in newest if len(stored) == len(vector)]
    return tuple(found[at][0] for at in nearest(vector, [stored for _, stored in found], NEAR))
