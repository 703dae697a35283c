"""Find the messages of a chat whose vectors are nearest to a question's, exactly; with pgvector if it is available.

No vector index is needed, because only one chat is searched, and a chat has some thousands of messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nlargest
from statistics import fmean
from uuid import UUID

from django.db import connection

from chatmemory.database.vector_field import TABLE, as_text, is_pgvector
from memory.models import MessageEmbedding
from memory.recall.meaning.similarity import nearness, products
from memory.recall.ranking import Near

MAX_NEAREST = 400
"""Maximum number of messages that are returned."""
NEWEST = 10_000
"""Maximum number of messages of a chat that are compared, the newest."""

_BY_PGVECTOR = f"""
    SELECT seq, -distance, avg(-distance) OVER () FROM (
        SELECT seq, vector <#> %s::vector AS distance FROM {TABLE}
        WHERE chat_id = %s AND vector_dims(vector) = %s ORDER BY seq DESC LIMIT %s
    ) newest ORDER BY distance, seq DESC LIMIT %s
"""  # noqa: S608  # our own table's name


def nearest_messages(chat_id: UUID, vector: bytes) -> tuple[Near, ...]:
    """Return the messages near to `vector`, nearest first."""
    return _by_pgvector(chat_id, vector) if is_pgvector() else _here(chat_id, vector)


def _by_pgvector(chat_id: UUID, vector: bytes) -> tuple[Near, ...]:
    with connection.cursor() as cursor:
        cursor.execute(_BY_PGVECTOR, [as_text(vector), chat_id, len(vector) // 4, NEWEST, MAX_NEAREST])
        found = cursor.fetchall()
    usual = found[0][2] if found else 0.0
    return _near([seq for seq, *_ in found], [product for _, product, _ in found], usual)


def _here(chat_id: UUID, vector: bytes) -> tuple[Near, ...]:
    rows = MessageEmbedding.objects.filter(chat_id=chat_id).order_by("-seq").values_list("seq", "vector")
    found = [(seq, bytes(stored)) for seq, stored in rows[:NEWEST] if len(stored) == len(vector)]
    alike = products(vector, [stored for _, stored in found])
    best = nlargest(MAX_NEAREST, range(len(alike)), key=alike.__getitem__)
    return _near([found[at][0] for at in best], [alike[at] for at in best], fmean(alike) if alike else 0.0)


def _near(seqs: Sequence[int], alike: Sequence[float], usual: float) -> tuple[Near, ...]:
    return tuple(map(Near, seqs, nearness(alike, usual)))
