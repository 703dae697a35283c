"""What a forked process must not share with its parent: connections to PostgreSQL.

django-q2 closes its connections before it forks, but with a pool that only hands them back: parent and child would
then speak on one socket and get each other's answers (measured: no fold succeeded). So a child forgets the pools it
inherited and makes its own. It does not close them: psycopg leaves connections of another process alone.
"""

from __future__ import annotations

import os

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

_inherited: list[object] = []
"""Kept, so that no destructor runs for what is the parent's."""


def install() -> None:
    """Have every process that is forked from now on begin with no connection of its parent."""
    os.register_at_fork(after_in_child=forget_connections)


def forget_connections() -> None:
    """Forget every pool and pooled connection that this process has. SQLite has none."""
    for connection in connections.all(initialized_only=True):
        if connection.vendor == "postgresql":
            _forget(connection)


def _forget(connection: BaseDatabaseWrapper) -> None:
    pools: dict[str, object] = type(connection)._connection_pools  # type: ignore[attr-defined]  # Django's own
    _inherited.extend((connection, *pools.values()))
    pools.clear()
    del connections[connection.alias]
