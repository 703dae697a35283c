"""Select statements as PostgreSQL functions, whose plans PostgreSQL keeps, and their installation.

Each connection plans such a statement once, however connections are pooled. The plan is generic, so the planner may
overestimate its cost and compile it, which takes far longer than a short statement: hence `jit` is off.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from django.db import connection, transaction


class Function(NamedTuple):
    """A named select, with its typed arguments and its return type."""

    name: str
    arguments: str
    returns: str
    select: str

    @property
    def body(self) -> str:
        """The body as the database stores it. It names the types, so that a change of type changes the body."""
        return f" -- {self.arguments}: {self.returns}\nBEGIN RETURN QUERY {self.select}; END "


def ensure(functions: Iterable[Function]) -> None:
    """Create functions that are missing or differ. Quick if none does; does nothing on other databases."""
    if connection.vendor != "postgresql":
        return
    with transaction.atomic(), connection.cursor() as cursor:
        for function in functions:
            cursor.execute("SELECT prosrc FROM pg_proc WHERE oid = to_regproc(%s)", [function.name])
            if cursor.fetchone() != (function.body,):
                cursor.execute(f"DROP FUNCTION IF EXISTS {function.name}")
                cursor.execute(
                    f"CREATE FUNCTION {function.name}({function.arguments}) RETURNS {function.returns}"
                    f" LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan SET jit = off"
                    f" AS $body${function.body}$body$"
                )
