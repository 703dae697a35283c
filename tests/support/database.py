"""The test database: kept in memory where possible, and emptied after a test that commits.

Django's own `flush` truncates every table, which takes PostgreSQL up to half a second even for little data, and then
recreates permissions and content types. They are kept here, because they follow from the code.
"""

import atexit
import fcntl
import functools
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.db.backends.sqlite3.creation import DatabaseCreation
from django.test import TransactionTestCase

from memory import queue

SHARED_MEMORY = Path("/dev/shm")
FOLDER = "TEST_DATABASES_FOLDER"
"""The variable that names the folder there to all processes of a run."""
KEPT = {"auth_permission", "django_content_type", "django_migrations"}


def empty() -> None:
    """Delete all rows that a test may have left. Wait for transactions that are still writing."""
    tables = _tables()
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(f"LOCK TABLE {', '.join(tables)} IN EXCLUSIVE MODE")
        # Most tables are empty after most tests, and one query costs less than forty deletions.
        cursor.execute(" UNION ALL ".join(f"SELECT '{one}' WHERE EXISTS (SELECT 1 FROM {one})" for one in tables))
        for (table,) in cursor.fetchall():
            cursor.execute(f"DELETE FROM {table}")
        queue.schedule_sweep()  # as after `migrate`


@functools.cache
def _tables() -> list[str]:
    """Return the names of all tables made by migrations, quoted."""
    found = connection.introspection.django_table_names(only_existing=True, include_views=False)
    return [connection.ops.quote_name(name) for name in found if name not in KEPT]


def instead_of_flush() -> None:
    """Have Django's test cases that commit use `empty` instead of `flush`."""

    def teardown(_: Any) -> None:
        empty()

    TransactionTestCase._fixture_teardown = teardown  # type: ignore[attr-defined]  # Django's own, which it documents nowhere


def end_sessions() -> None:
    """End all sessions on PostgreSQL's test database, which could not be dropped otherwise.

    A thread of the live server that was interrupted during a request may leave its connection open; a pooler keeps
    that of this very statement, which ends itself last.
    """
    if connection.vendor == "postgresql":
        with suppress(OperationalError), connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
                " ORDER BY pid = pg_backend_pid()"
            )
        connection.close()


def in_shared_memory() -> None:
    """Put SQLite's test databases in shared memory, if the system has it, and migrate only once in a run.

    Measured with the 193 tests of options: 52 s on disk, 30 s here. Processes that tests start have databases of their
    own, on disk.
    """
    if not settings.IS_SQLITE or not os.access(SHARED_MEMORY, os.W_OK):
        return
    if FOLDER not in os.environ:  # this process is the only one, or starts the others
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="chatmemory-test-", dir=SHARED_MEMORY)
        atexit.register(shutil.rmtree, os.environ[FOLDER], ignore_errors=True)
    folder = Path(os.environ[FOLDER])
    settings.DATABASES["default"]["TEST"]["NAME"] = f"{folder}/test.sqlite3"
    create: Any = DatabaseCreation.create_test_db  # it is overloaded
    migrated = folder / "migrated.sqlite3"

    def create_once(self: DatabaseCreation, *args: Any, keepdb: bool = False, **options: Any) -> Any:
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if migrated.exists():  # 3 s less
                shutil.copy(migrated, self.connection.settings_dict["TEST"]["NAME"])
                keepdb = True
            name = create(self, *args, keepdb=keepdb, **options)
            if not migrated.exists():
                with self.connection.cursor() as cursor:
                    cursor.execute("VACUUM INTO %s", [str(migrated)])
        return name

    DatabaseCreation.create_test_db = create_once  # type: ignore[assignment,method-assign]


def bytes_of(file: Path) -> bytes:
    """Return the content of a database's file, read by another process.

    A process that closes such a file loses all locks that its connections have on it, so SQLite believes the process is
    gone: the next process to open the database rebuilds the index of its log, and ours get a disk I/O error.
    """
    return subprocess.run(["cat", str(file)], capture_output=True, check=True).stdout


def traces(chat: str) -> list[str]:
    """Return the tables that contain the id of a chat, or of one of its messages, in any column.

    The queue is left out: a task keeps its chat's id until a worker finds that the chat is gone. So is the log of
    erasures, whose purpose it is.
    """
    plain = chat.replace("-", "")
    found = []
    for model in apps.get_models(include_auto_created=True):
        table = model._meta.db_table
        if table.startswith(("django_q_", "conversations_erased")):
            continue
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            if any(plain in str(row).replace("-", "") for row in cursor.fetchall()):
                found.append(table)
    return found


def plan_of(sql: str) -> str:
    """The database's plan for `sql`."""
    prefix = "EXPLAIN QUERY PLAN" if connection.vendor == "sqlite" else "EXPLAIN"
    with connection.cursor() as cursor:
        cursor.execute(f"{prefix} {sql}")
        return "\n".join(str(row[-1]) for row in cursor.fetchall())
