"""Whether the database can be used, asked at the start, before anything stands on it; the reason in one sentence.

A pool hides why it has no connection, and waits before it says so. So this makes one connection of its own, without a
pool. A host that does not answer at all is told apart by a plain TCP connection, which has less time: one that answers
may be slow.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from django.db import DatabaseError
from django.db.utils import ConnectionHandler

REACH_SECONDS = 1.2
"""For a host to take a TCP connection: a packet that was lost is sent again after a second."""
STARTUP_FAILURE = 3
"""uvicorn's exit code for what would fail the same way again."""
YOUNG_SECONDS = 30.0
"""A supervisor that runs for longer has seen the database work."""


def problem(database: Mapping[str, Any]) -> str | None:
    """Why this database cannot be used: a sentence without passwords. None where it can."""
    reason = _silence(database) or _refusal(database)
    return None if reason is None else f"The database that DATABASE_URL names cannot be used: {reason}."


def require_database(database: Mapping[str, Any]) -> None:
    """End this server process where the database cannot be used, but for one that takes the place of another."""
    with ThreadPoolExecutor(1) as thread:  # there may be a loop in this one
        sentence = thread.submit(problem, database).result()
    if sentence is not None:
        refuse(sentence)


def require_embeddings() -> None:
    """The same where the folder's model for embeddings cannot be loaded. It is from now on: no turn waits for that."""
    from chatmemory.llm import (
        registry,
    )  # here, because commands that ask for the database alone have no use for it

    if sentence := registry.embeddings_problem():
        refuse(sentence)


def refuse(sentence: str) -> None:
    """End this server process, but for one that takes the place of another, which only says why it should."""
    if not _is_respawned():
        end_server(sentence)
    sys.stderr.write(f"{sentence}\n")


def end_server(sentence: str) -> NoReturn:
    """End a server process that cannot start, so that uvicorn's supervisor ends, too, and does not try for ever."""
    sys.stderr.write(f"{sentence}\n")
    sys.exit(STARTUP_FAILURE)


def without_pool(database: Mapping[str, Any]) -> dict[str, Any]:
    """The same database by connections that tell why they cannot be made."""
    options = {name: value for name, value in database.get("OPTIONS", {}).items() if name != "pool"}
    return {**database, "OPTIONS": options}


def _is_respawned() -> bool:
    """Whether a supervisor that has been up for a while started this process again: it must not end the others."""
    if multiprocessing.parent_process() is None:
        return False
    try:
        ticks = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[19])
        uptime = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return False
    return uptime - ticks / os.sysconf("SC_CLK_TCK") > YOUNG_SECONDS


def _silence(database: Mapping[str, Any]) -> str | None:
    """That nothing answers there. What is refused, or has no address, the database's own client tells better."""
    host, port = str(database.get("HOST") or ""), int(database.get("PORT") or 5432)
    if not host or host.startswith("/") or "," in host or {"hostaddr", "service"} & set(database["OPTIONS"]):
        return None
    reaching = threading.Thread(target=_reach, args=(host, port), name="reach", daemon=True)
    reaching.start()
    reaching.join(REACH_SECONDS)
    return f'the host "{host}" does not answer on port {port}' if reaching.is_alive() else None


def _reach(host: str, port: int) -> None:
    with suppress(OSError):
        socket.create_connection((host, port)).close()


def _refusal(database: Mapping[str, Any]) -> str | None:
    connection = ConnectionHandler({"default": without_pool(database)})["default"]
    try:
        connection.ensure_connection()
    except DatabaseError as exc:
        return _one_line(exc)
    finally:
        connection.close()
    return None


def _one_line(exc: DatabaseError) -> str:
    """What the client says, without its questions; of several addresses of one host, what it says of the last."""
    said = str(exc).rpartition("connection failed: ")[2].strip() or type(exc).__name__
    return " ".join(said.splitlines()[0].split()).rstrip(".")
