"""Django's PostgreSQL backend, with a health check only for pooled connections that may be broken.

With `CONN_HEALTH_CHECKS`, the pool checks each time, which costs a round trip per job; and after a restart of the
server it waits longer after each broken connection that it finds, so that a request finds none in 10 seconds. A server
that went away, or ended a session, has closed the connection or sent a message: then there is something to read on it,
where nothing should be.

On a distributed database, an owner's row has a primary key of two columns, by one of which PostgreSQL cannot group.
"""

import select
from typing import Any

from django.db.backends.postgresql import base, features
from psycopg import Connection, OperationalError
from psycopg_pool import ConnectionPool

from chatmemory import metrics


class DatabaseFeatures(features.DatabaseFeatures):
    def allows_group_by_selected_pks_on_model(self, model: Any) -> bool:
        return super().allows_group_by_selected_pks_on_model(model) and not hasattr(model, "OWNER")


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection that is checked when it is taken from the pool, if there is reason to."""

    features_class = DatabaseFeatures

    def get_new_connection(self, conn_params: dict[str, Any]) -> Connection[Any]:
        with metrics.POOL_WAITING.track_inprogress():
            connection: Connection[Any] = super().get_new_connection(conn_params)
            if self.pool is None:
                return connection
            while _may_be_gone(connection) and not _lives(connection):
                self.pool.putconn(connection)  # which finds that it is broken, and makes another
                connection = super().get_new_connection(conn_params)
        metrics.POOL_SIZE.set(self.pool.max_size)
        metrics.POOL_IN_USE.inc()
        return connection

    def _close(self) -> None:
        if self.connection is not None and self.pool is not None:
            metrics.POOL_IN_USE.dec()
        super()._close()  # type: ignore[misc]  # its stubs leave it out


def _may_be_gone(connection: Connection[Any]) -> bool:
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _lives(connection: Connection[Any]) -> bool:
    try:
        ConnectionPool.check_connection(connection)
    except OperationalError:
        return False
    return True
