"""Vectors are stored exactly, and each database and each way of comparing finds the nearest ones."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from chatmemory.database import vector_field
from chatmemory.database.vector_field import numbers_of
from conversations.models import Chat
from memory.models import ChatEmbeddings, MessageEmbedding
from memory.recall.meaning import nearest
from memory.recall.meaning.nearest import MAX_NEAREST, nearest_messages
from memory.recall.ranking import Near
from tests.support.factories import make_chat

pytestmark = pytest.mark.django_db

DIMENSIONS = 48


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    """Forget the cached column type before and after each test."""
    vector_field.is_pgvector.cache_clear()
    yield
    vector_field.is_pgvector.cache_clear()


@pytest.fixture
def pgvector() -> None:
    """Install the extension for one test; the rollback of the test's transaction removes it."""
    if connection.vendor != "postgresql":
        pytest.skip("of PostgreSQL alone")
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'")
        if cursor.fetchone() is None:
            pytest.skip("this server has no pgvector")
        cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
    vector_field.ensure()
    assert vector_field.is_pgvector()


def unit(chance: random.Random, dimensions: int = DIMENSIONS) -> bytes:
    values = [chance.gauss(0.1, 1) for _ in range(dimensions)]
    length = sum(value * value for value in values) ** 0.5
    return struct.pack(f"<{dimensions}f", *(value / length for value in values))


def stored(chat: Chat, vectors: dict[int, bytes]) -> None:
    MessageEmbedding.objects.bulk_create(
        MessageEmbedding(chat=chat, seq=seq, vector=vector) for seq, vector in vectors.items()
    )


def by_hand(to: bytes, vectors: dict[int, bytes]) -> list[tuple[int, float]]:
    """The seqs of the nearest vectors with their nearness, computed in plain Python."""
    one = numbers_of(to)
    products = {
        seq: sum(a * b for a, b in zip(one, numbers_of(vector), strict=True))
        for seq, vector in vectors.items()
        if len(vector) == len(to)
    }
    usual = sum(products.values()) / len(products)
    best = sorted(products, key=lambda seq: -products[seq])[:MAX_NEAREST]
    span = products[best[0]] - usual
    return [(seq, (products[seq] - usual) / span) for seq in best if products[seq] > usual]


@pytest.mark.parametrize("dimensions", [1, 2, 256, 1536])
def test_what_is_stored_comes_back_to_the_bit(dimensions: int) -> None:
    stored_and_read(dimensions)


@pytest.mark.parametrize("dimensions", [1, 256])
def test_what_pgvector_stores_comes_back_to_the_bit(dimensions: int, pgvector: None) -> None:
    stored_and_read(dimensions)


def stored_and_read(dimensions: int) -> None:
    chance, chat = random.Random(dimensions), make_chat()
    vectors = {seq: unit(chance, dimensions) for seq in (1, 3)}
    stored(chat, vectors)
    MessageEmbedding.objects.create(chat=chat, seq=5, vector=struct.pack("<3f", -0.0, 1e-38, 3e38))
    rows = MessageEmbedding.objects.filter(chat=chat)
    found = dict(rows.values_list("seq", "vector"))
    assert found.pop(5) == struct.pack("<3f", -0.0, 1e-38, 3e38)
    assert found == vectors
    assert {row.seq: row.vector for row in rows if row.seq != 5} == vectors


def compared() -> None:
    chance, chat, other = random.Random(7), make_chat(), make_chat()
    vectors = {seq: unit(chance) for seq in range(1, 2001, 2)}
    vectors[2001] = unit(chance, DIMENSIONS + 1)
    stored(chat, vectors)
    stored(other, {1: unit(chance)})
    for _ in range(10):
        to = unit(chance)
        found, expected = nearest_messages(chat.pk, to), by_hand(to, vectors)
        assert [one.seq for one in found] == [seq for seq, _ in expected] != []
        assert [one.nearness for one in found] == pytest.approx([near for _, near in expected], abs=1e-5)
    assert nearest_messages(make_chat().pk, to) == ()
    near = next(iter(vectors.values()))
    assert nearest_messages(chat.pk, near)[0] == Near(1, 1.0)
    opposite = struct.pack(f"<{DIMENSIONS}f", *(-number for number in numbers_of(near)))
    assert 1 not in dict(nearest_messages(chat.pk, opposite))


def test_the_nearest_by_numpy() -> None:
    compared()


def test_the_nearest_by_pgvector(pgvector: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def unexpected(*_: Any) -> Any:
        raise AssertionError("this was to be asked of the database")

    monkeypatch.setattr(nearest, "_here", unexpected)
    compared()


def test_only_the_newest_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "NEWEST", 10)
    newest_alone()


def test_only_the_newest_are_looked_at_by_pgvector(pgvector: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "NEWEST", 10)
    newest_alone()


def newest_alone() -> None:
    chance, chat = random.Random(3), make_chat()
    vector = unit(chance)
    stored(chat, dict.fromkeys(range(1, 41, 2), vector))
    assert sorted(nearest_messages(chat.pk, vector)) == [Near(seq, 1.0) for seq in range(21, 41, 2)]


def test_when_the_extension_comes_vectors_are_made_anew() -> None:
    if connection.vendor != "postgresql" or vector_field.is_pgvector():
        pytest.skip("of a PostgreSQL database without the extension")
    chance, chat = random.Random(1), make_chat()
    stored(chat, {1: unit(chance)})
    ChatEmbeddings.objects.create(chat=chat, model="m", dimensions=DIMENSIONS, through_seq=2)
    connection.check_constraints()
    assert vector_field.ensure() is False, "nothing is lost while there is none"
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'")
        if cursor.fetchone() is None:
            assert MessageEmbedding.objects.count() == 1
            pytest.skip("this server has no pgvector")
        cursor.execute("CREATE EXTENSION vector")
    assert vector_field.ensure() is True
    assert not MessageEmbedding.objects.exists()
    assert ChatEmbeddings.objects.get().through_seq == 0
    stored(chat, {1: unit(chance)})
    assert vector_field.ensure() is False
    assert MessageEmbedding.objects.count() == 1
