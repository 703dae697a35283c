"""Traces of a request: a hash of all tables, and the statements that it sent to the database."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.apps import apps
from django.core import serializers
from django.db.backends.utils import CursorWrapper

from chatmemory.database import statements as statements_of
from chatmemory.runtime.logging_config import request_id

_VALUE = re.compile(r"'[^']*'")
"""Literals, which the SQL contains where statements are sent together."""
UNTOLD = ("sessions.Session", "auth.Permission", "contenttypes.ContentType")
"""Ignored tables: a login writes a session, and the other two come from the code."""


def everything(*left_out: str) -> str:
    """Return a hash of every row of every table, except those of `left_out` models (`app.Model`)."""
    rows = [
        serializers.serialize("json", model._base_manager.order_by("pk"))
        for model in apps.get_models()
        if model._meta.managed and model._meta.label not in (*UNTOLD, *left_out)
    ]
    return hashlib.sha256("".join(rows).encode()).hexdigest()


@contextmanager
def statements(of: str) -> Iterator[list[str]]:
    """Collect the SQL, without its values, of the requests with this `X-Request-ID`; other requests never pause."""
    sent: list[str] = []
    execute, past_cursors = CursorWrapper.execute, statements_of.executed

    def heard(self: Any, sql: str, params: Any = None) -> Any:
        if request_id.get() == of:
            sent.append(_VALUE.sub("?", str(sql)))
        return execute(self, sql, params)

    def heard_too(connection: Any, sql: str, params: Any) -> Any:
        if request_id.get() == of:
            sent.append(_VALUE.sub("?", str(sql)))
        return past_cursors(connection, sql, params)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CursorWrapper, "execute", heard)
        patch.setattr(statements_of, "executed", heard_too)
        yield sent
