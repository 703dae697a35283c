"""SQLite's write-ahead log, which keeps deleted text until it is written over."""

from __future__ import annotations

from django.db import connection

LOG_PATIENCE_MS = 200
"""How long truncating SQLite's write-ahead log waits for others, in milliseconds. Writers wait as long for it."""


def truncate_wal() -> None:
    """On SQLite, move the content of the write-ahead log into the database, and truncate the log.

    Deleted content is overwritten in the database (`secure_delete`), but would stay in the log until it is written
    again. If another connection is reading or writing, wait for `LOG_PATIENCE_MS`, then leave it to the next call.
    """
    if connection.vendor != "sqlite" or connection.in_atomic_block:
        return
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout")
        (patience,) = cursor.fetchone()
        cursor.execute(f"PRAGMA busy_timeout = {LOG_PATIENCE_MS}")
        try:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            cursor.fetchall()
        finally:
            cursor.execute(f"PRAGMA busy_timeout = {patience}")
