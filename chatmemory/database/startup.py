"""Whether the database can be used, and has all migrations of this version; if not, a sentence for the operator.

The server asks before Django is set up, so this imports no models. A pool hides why it has no connection, and waits
before it reports that: so one connection is opened without a pool.
"""

import logging
import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from django.core import checks
from django.db import DatabaseError, InterfaceError, connection, connections
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.utils import ConnectionHandler

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 3
"""How long the first connection may take. A later one may take longer, because the database was there before."""
STARTUP_FAILURE = 3
"""uvicorn's exit code for errors that would occur again on restart."""
YOUNG_SECONDS = 30.0
"""A supervisor that has run longer has seen the database work."""


def problem(database: Mapping[str, Any]) -> str | None:
    """Why this database cannot be used, as a sentence without passwords; None if it can be used."""
    database = without_pool(database)
    if "postgresql" in database["ENGINE"]:
        database["OPTIONS"]["connect_timeout"] = CONNECT_SECONDS
    first = ConnectionHandler({"default": database})["default"]
    try:
        first.ensure_connection()
        if first.vendor == "postgresql":
            encoding = first.connection.info.parameter_status("server_encoding")
            if encoding not in ("UTF8", "SQL_ASCII"):  # the second takes all bytes
                return f"The database that DATABASE_URL names cannot be used: its encoding is {encoding}, not UTF8."
    except DatabaseError as exc:
        # The client's message on one line, without hints; for a host with several addresses, that of the last.
        reason = str(exc).rpartition("connection failed: ")[2].strip() or type(exc).__name__
        reason = " ".join(reason.splitlines()[0].split()).rstrip(".")
        return f"The database that DATABASE_URL names cannot be used: {reason}."
    finally:
        first.close()
    return None


def require_database(database: Mapping[str, Any]) -> None:
    """End this server process if the database cannot be used, unless it replaces a process that died."""
    with ThreadPoolExecutor(1) as thread:  # this thread may have an event loop
        sentence = thread.submit(problem, database).result()
    if sentence is not None and not _is_respawned():
        end_server(sentence)
    elif sentence is not None:
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


TOO_OLD = (
    "The database is older than commit fe405414 of 26 November 2026, whose migrations are one now. Migrate it with "
    "that commit, then with this version (docs/upgrade.md)."
)


def migrations_problem() -> str | None:
    """Return the sentence, or None if no migration is missing (one query). Raise errors of the database."""
    if _all_migrations() <= MigrationRecorder(connection).applied_migrations().keys():
        return None
    executor = MigrationExecutor(connection)
    if _is_too_old(executor.loader):
        return TOO_OLD
    missing = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    if not missing:
        return None
    are = "1 migration is" if missing == 1 else f"{missing} migrations are"
    return f"The database is not migrated ({are} missing): run `manage.py migrate`."


def log_missing_migrations() -> None:
    """Log the sentence, or that the database does not answer. It may come, or be migrated, while the process runs."""
    try:
        if missing := migrations_problem():
            logger.error("database not migrated", extra={"reason": missing})
    except (DatabaseError, InterfaceError) as exc:
        logger.error("database unavailable", extra={"error": type(exc).__name__})
    finally:
        connection.close()


def check_age(databases: Sequence[str] | None = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """`migrate` refuses what it would break: Django runs what follows a squashed migration without it."""
    names = databases or ()
    if any(_is_too_old(MigrationLoader(connections[name])) for name in names):
        return [checks.Error(TOO_OLD, id="chatmemory.E001")]
    return []


def _is_too_old(loader: MigrationLoader) -> bool:
    """Whether an app has some of its migrations, but not what it begins with."""
    applied = loader.applied_migrations
    begun = {app for app, _ in applied}
    return any(first not in applied and first[0] in begun for first in loader.graph.root_nodes())


@cache
def _all_migrations() -> set[tuple[str, str]]:
    """The migrations of this version. A squashed migration counts instead of those that it replaces."""
    return set(MigrationLoader(None).graph.nodes)
