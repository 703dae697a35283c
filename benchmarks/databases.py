"""The databases of benchmarks: a SQLite file in a temporary folder, or a PostgreSQL database, dropped afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

POSTGRES_URL = "postgres://postgres@127.0.0.1:5432/chatmemory"
CONNECT_SECONDS = 3


@contextmanager
def sqlite() -> Iterator[str]:
    """Yield the URL of a file that does not exist yet."""
    with TemporaryDirectory(prefix="chatmemory-bench-") as folder:
        yield f"sqlite:///{Path(folder) / 'bench.sqlite3'}"


@contextmanager
def postgres(suffix: str = "bench") -> Iterator[str]:
    """Yield the URL of an empty database. Raise `psycopg.OperationalError` if no server answers.

    The server is the one of `POSTGRES_URL`; the database's name is the one in that URL plus `_` and `suffix`. It is
    dropped afterwards.
    """
    parts = urlsplit(os.environ.get("POSTGRES_URL") or POSTGRES_URL)
    name = f"{parts.path.strip('/') or 'chatmemory'}_{suffix}"
    server = parts._replace(path="/postgres").geturl()
    _execute(server, "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)
    _execute(server, "CREATE DATABASE {}", name)
    try:
        yield parts._replace(path=f"/{name}").geturl()
    finally:
        _execute(server, "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)


def _execute(server: str, statement: str, name: str) -> None:
    with psycopg.connect(server, autocommit=True, connect_timeout=CONNECT_SECONDS) as connection:
        connection.execute(sql.SQL(statement).format(sql.Identifier(name)))
