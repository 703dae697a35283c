"""What a forked process must not share with its parent: connections to PostgreSQL.

django-q2 closes its connections before it forks, but with a pool that only hands them back: parent and child would
then speak on one socket and get each other's answers (measured: no fold succeeded). So a child forgets the pools it
inherited and makes its own. It does not close them: psycopg leaves connections of another process alone.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from django.db import connections

_inherited: list[object] = []
"""Kept, so that no destructor runs for what is the parent's."""


def install() -> None:
    """Have every process that is forked from now on begin with no connection of its parent."""
    os.register_at_fork(after_in_child=forget_connections)


def close_all() -> None:
    """Close this thread's connections, and the pools with the threads that look after them."""
    for connection in connections.all(initialized_only=True):
        connection.close()
    for name in list(_pools()):
        _pools().pop(name).close()


def forget_connections() -> None:
    """Forget every pool and pooled connection that this process has. SQLite has none."""
    pools = _pools()
    _inherited.extend(pools.values())
    pools.clear()
    for connection in connections.all(initialized_only=True):
        if connection.vendor == "postgresql":
            _inherited.append(connection)
            del connections[connection.alias]


def _pools() -> dict[str, Any]:
    """Django's own, by the alias of their database; a process has those that it has used."""
    base = sys.modules.get("django.db.backends.postgresql.base")
    return {} if base is None else base.DatabaseWrapper._connection_pools
