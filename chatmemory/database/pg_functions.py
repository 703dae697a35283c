"""Statements as functions of PostgreSQL, which keeps their plans, and how they come to be there.

Each connection plans such a statement once, however connections are pooled. As it is planned without knowing what will
be asked, the planner may take it for so much that it has the plan compiled, and that takes far longer than a short
statement: hence no `jit`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from django.db import connection, transaction


class Function(NamedTuple):
    """A select with a name, its arguments with their types, and the type of what it returns."""

    name: str
    arguments: str
    returns: str
    select: str

    @property
    def body(self) -> str:
        """As the database keeps it; with its types, so that another of them makes another body."""
        return f" -- {self.arguments}: {self.returns}\nBEGIN RETURN QUERY {self.select}; END "


def ensure(functions: Iterable[Function]) -> None:
    """Make those that are missing or are others. Quick where none is; nothing on another database."""
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
