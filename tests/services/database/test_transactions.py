"""What is added to Django's databases: reads from one snapshot, long reads over many connections (a pooler such as
PgBouncer gives each transaction another one), and an SQLite log that keeps no deleted data."""

import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection

from chatmemory.database import executors
from chatmemory.database.rows import in_chunks
from conversations.interchange.rows import message_fields
from conversations.models import Message
from tests.support.database import bytes_of
from tests.support.factories import add_turn, make_chat

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]


def meanwhile(act: Callable[[], object]) -> None:
    """Run `act` to its end in a thread, and so on another connection."""

    def run() -> None:
        try:
            act()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


def log() -> Path:
    return Path(f"{connection.settings_dict['NAME']}-wal")


def test_snapshot_reads_one_moment() -> None:
    make_chat()
    with executors.snapshot():
        assert User.objects.count() == 1
        meanwhile(lambda: User.objects.create(username="late"))
        assert User.objects.count() == 1
    assert User.objects.count() == 2


def test_snapshot_ends_after_errors() -> None:
    def fails() -> None:
        with executors.snapshot():
            User.objects.count()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    meanwhile(lambda: User.objects.create(username="late"))
    assert User.objects.count() == 1


def test_an_export_goes_on_after_its_connection_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chatmemory.database.rows.CHUNK_MAX_BYTES", 100)
    chat = make_chat()
    for number in range(20):
        add_turn(chat, f"Question {number}", "An answer.")
    said = []
    for one in message_fields(chat):
        said.append(one["content"])
        connection.close()
    assert said == list(Message.objects.filter(chat=chat).order_by("seq").values_list("content", flat=True))
    assert len(said) == 40


def test_rows_keep_their_order_and_their_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chatmemory.database.rows.CHUNK_MAX_ROWS", 3)
    for number in range(7):
        User.objects.create_user(f"user{number}")
    rows = User.objects.order_by("-username").values("username")
    assert [row["username"] for row in in_chunks(rows)] == [f"user{number}" for number in range(6, -1, -1)]


@pytest.mark.skipif("connection.vendor != 'sqlite'")
def test_checkpoint_truncates_log_without_readers() -> None:
    User.objects.create(username="heron")
    with executors.snapshot():
        User.objects.count()
        meanwhile(lambda: User.objects.create(username="egret"))
        meanwhile(executors.truncate_wal)
        assert log().stat().st_size > 0, "somebody still reads it"
    executors.truncate_wal()
    assert log().stat().st_size == 0
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout")
        assert cursor.fetchone() == (60_000,)


@pytest.mark.skipif("connection.vendor != 'sqlite'")
def test_delete_overwrites_the_data() -> None:
    word = "heron" * 1000
    user = User.objects.create(username="ada")
    chat = make_chat(user, instructions=word)
    executors.truncate_wal()
    file = Path(str(connection.settings_dict["NAME"]))
    assert word.encode()[:3000] in bytes_of(file)
    chat.instructions = ""
    chat.save()
    executors.truncate_wal()
    assert b"heronheron" not in bytes_of(file)


@pytest.mark.skipif(settings.IS_SQLITE, reason="SQLite has no pool")
def test_a_pooled_connection_that_was_ended_is_not_used() -> None:
    with connection.cursor():
        dsn = connection.connection.info.dsn
    connection.close()
    with psycopg.connect(dsn) as other:
        ended = other.execute(
            "SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        assert ended.rowcount >= 1
    assert make_chat().title == ""
