"""Where benchmarks run: a SQLite file in a folder that is removed, and a PostgreSQL database made and dropped here."""

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
    """The URL of a file that does not exist yet."""
    with TemporaryDirectory(prefix="chatmemory-bench-") as folder:
        yield f"sqlite:///{Path(folder) / 'bench.sqlite3'}"


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of an empty database. Raises `psycopg.OperationalError` where no server answers.

    The server is that of `POSTGRES_URL`; the database has its name with `_bench` after it, and is dropped.
    """
    parts = urlsplit(os.environ.get("POSTGRES_URL") or POSTGRES_URL)
    name = f"{parts.path.strip('/') or 'chatmemory'}_bench"
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
