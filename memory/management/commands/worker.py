"""`manage.py worker`: a cluster of workers under a watchdog, until it is told to end."""

from __future__ import annotations

import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from chatmemory.observability import tell_of_crashes
from memory.broker import AWAY
from memory.models import Watch
from memory.watchdog import Watchdog


class Command(BaseCommand):
    help = "Fold memory in the background: a django-q2 cluster under a watchdog, which replaces it when it freezes."

    def handle(self, *_args: Any, **_options: Any) -> None:
        require_tables()
        tell_of_crashes()
        stopped = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: stopped.set())
        Watchdog().run(stopped)


def require_tables() -> None:
    """Raise `CommandError` where the database answers and was never migrated. One that is away may come back."""
    try:
        is_there = Watch._meta.db_table in connection.introspection.table_names()
    except AWAY:
        return
    finally:
        connection.close()
    if not is_there:
        raise CommandError("The database has no tables for this yet. Run `manage.py migrate` first.")
