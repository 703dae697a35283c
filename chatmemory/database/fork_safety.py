"""Keeps forked processes from sharing connections to PostgreSQL with their parent.

django-q2 closes its connections before it forks, but with a pool that only returns them: parent and child would then
use one socket and get each other's answers (measured: no fold succeeded). So a child forgets the pools that it
inherited and makes its own. It does not close them: psycopg leaves connections of another process alone.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from django.db import connections

_inherited: list[object] = []
"""References to the parent's pools and connections, kept so that their destructors do not run here."""


def install() -> None:
    """Make every process that is forked from now on start without its parent's connections."""
    os.register_at_fork(after_in_child=forget_connections)


def close_all() -> None:
    """Close this thread's connections, and the pools with their maintenance threads."""
    for connection in connections.all(initialized_only=True):
        connection.close()
    for name in list(_pools()):
        _pools().pop(name).close()


def forget_connections() -> None:
    """Forget every pool and pooled connection of this process. SQLite has none."""
    pools = _pools()
    _inherited.extend(pools.values())
    pools.clear()
    for connection in connections.all(initialized_only=True):
        if connection.vendor == "postgresql":
            _inherited.append(connection)
            del connections[connection.alias]


def _pools() -> dict[str, Any]:
    """Django's pools, by database alias; only those that this process has used."""
    base = sys.modules.get("django.db.backends.postgresql.base")
    return {} if base is None else base.DatabaseWrapper._connection_pools
