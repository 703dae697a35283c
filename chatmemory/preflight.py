"""Startup check that the database can be used; the reason in one sentence if it cannot.

A pool hides why it has no connection, and waits before it reports that. So this opens one connection without a pool.
A host that does not answer at all is found by a plain TCP connection with a shorter timeout, because a database that
answers may be slow.
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
"""Seconds for a host to accept a TCP connection: a lost packet is sent again after one second."""
STARTUP_FAILURE = 3
"""uvicorn's exit code for errors that would occur again on restart."""
YOUNG_SECONDS = 30.0
"""A supervisor that has run longer has seen the database work."""


def problem(database: Mapping[str, Any]) -> str | None:
    """Why this database cannot be used, as a sentence without passwords; None if it can be used."""
    reason = _unreachable_reason(database) or _refusal(database)
    return None if reason is None else f"The database that DATABASE_URL names cannot be used: {reason}."


def require_database(database: Mapping[str, Any]) -> None:
    """End this server process if the database cannot be used, unless it replaces a process that died."""
    with ThreadPoolExecutor(1) as thread:  # this thread may have an event loop
        sentence = thread.submit(problem, database).result()
    if sentence is not None:
        refuse(sentence)


def refuse(sentence: str) -> None:
    """End this server process, unless it replaces a process that died; then only print the sentence."""
    if not _is_respawned():
        end_server(sentence)
    sys.stderr.write(f"{sentence}\n")


def end_server(sentence: str) -> NoReturn:
    """End a server process that cannot start, so that uvicorn's supervisor ends, too, instead of retrying forever."""
    sys.stderr.write(f"{sentence}\n")
    sys.exit(STARTUP_FAILURE)


def without_pool(database: Mapping[str, Any]) -> dict[str, Any]:
    """The same database without a pool, so that errors say why a connection failed."""
    options = {name: value for name, value in database.get("OPTIONS", {}).items() if name != "pool"}
    return {**database, "OPTIONS": options}


def _is_respawned() -> bool:
    """Whether a long-running supervisor restarted this process, which then must not end the others."""
    if multiprocessing.parent_process() is None:
        return False
    try:
        ticks = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[19])
        uptime = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return False
    return uptime - ticks / os.sysconf("SC_CLK_TCK") > YOUNG_SECONDS


def _unreachable_reason(database: Mapping[str, Any]) -> str | None:
    """The reason if nothing answers. Refusals and unknown hosts are better described by the database's own client."""
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
    """The client's message on one line, without hints; for a host with several addresses, that of the last."""
    said = str(exc).rpartition("connection failed: ")[2].strip() or type(exc).__name__
    return " ".join(said.splitlines()[0].split()).rstrip(".")
