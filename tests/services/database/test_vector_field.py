"""pgvector stores vectors exactly and finds the nearest ones; without it, nothing is stored."""

import random
from array import array
from collections.abc import Iterator

import pytest
from django.db import connection

from chatmemory.database import vector_field
from conversations.models import Chat
from memory.models import ChatEmbeddings, MessageEmbedding
from memory.recall import embeddings
from memory.recall.embeddings import nearest_messages
from memory.recall.ranking import Near
from tests.support.factories import make_chat
from tests.support.vectors import add_pgvector, nearest_by_hand

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]

DIMENSIONS = 48


@pytest.fixture(autouse=True)
def forget_the_column_type() -> Iterator[None]:
    """The rollback of a test's transaction takes the extension away again."""
    vector_field.is_pgvector.cache_clear()
    yield
    vector_field.is_pgvector.cache_clear()


@pytest.fixture
def pgvector() -> None:
    if not add_pgvector():
        pytest.skip("this database cannot have pgvector")
    assert vector_field.is_pgvector()


def unit(chance: random.Random, dimensions: int = DIMENSIONS) -> list[float]:
    values = [chance.gauss(0.1, 1) for _ in range(dimensions)]
    length = sum(value * value for value in values) ** 0.5
    return array("f", [value / length for value in values]).tolist()


def store(chat: Chat, vectors: dict[int, list[float]]) -> None:
    MessageEmbedding.objects.bulk_create(
        MessageEmbedding(chat=chat, seq=seq, vector=vector) for seq, vector in vectors.items()
    )


@pytest.mark.parametrize("dimensions", [1, 256, 1536])
def test_a_vector_is_read_as_it_was_stored(dimensions: int, pgvector: None) -> None:
    chance, chat = random.Random(dimensions), make_chat()
    vectors = {seq: unit(chance, dimensions) for seq in (1, 3)}
    store(chat, vectors)
    found = MessageEmbedding.objects.filter(chat=chat).values_list("seq", "vector")
    assert {seq: array("f", vector).tolist() for seq, vector in found} == vectors


def test_the_nearest_messages_of_the_chat_are_found(pgvector: None) -> None:
    chance, chat, other = random.Random(7), make_chat(), make_chat()
    vectors = {seq: unit(chance) for seq in range(1, 2001, 2)}
    vectors[2001] = unit(chance, DIMENSIONS + 1)
    store(chat, vectors)
    store(other, {1: unit(chance)})
    for _ in range(10):
        to = unit(chance)
        found, expected = nearest_messages(chat.key, to), nearest_by_hand(chat.key, to)
        assert [one.seq for one in found] == [one.seq for one in expected] != []
        nearness = [one.nearness for one in expected]
        assert [one.nearness for one in found] == pytest.approx(nearness, abs=1e-5)
    assert nearest_messages(make_chat().key, to) == ()
    assert nearest_messages(chat.key, vectors[1])[0] == Near(1, 1.0)
    assert 1 not in dict(nearest_messages(chat.key, [-number for number in vectors[1]]))


def test_nearest_compares_newest_messages_only(pgvector: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "NEWEST", 10)
    chat, vector = make_chat(), unit(random.Random(3))
    store(chat, dict.fromkeys(range(1, 41, 2), vector))
    assert sorted(nearest_messages(chat.key, vector)) == [Near(seq, 1.0) for seq in range(21, 41, 2)]


def test_vectors_of_another_type_are_deleted_and_computed_again() -> None:
    if vector_field.is_pgvector():
        pytest.skip("of a database without the extension")
    chat = make_chat()
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {vector_field.TABLE} (chat_id, owner_id, seq, vector) VALUES (%s, %s, 1, %s)",
            [chat.pk if connection.vendor == "postgresql" else chat.pk.hex, chat.owner_id, b"1234"],
        )
    ChatEmbeddings.objects.create(chat=chat, model="m", dimensions=1, through_seq=2)
    connection.check_constraints()
    has_it = add_pgvector()
    vector_field.ensure()
    assert vector_field.is_pgvector() is has_it
    assert not MessageEmbedding.objects.exists()
    assert ChatEmbeddings.objects.get().through_seq == 0
    if has_it:
        store(chat, {1: [1.0]})
        vector_field.ensure()
        assert MessageEmbedding.objects.count() == 1
