"""`manage.py worker`: run a cluster of workers under a watchdog, until a signal ends it."""

from __future__ import annotations

import logging
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from chatmemory.database import migration_state
from chatmemory.llm import local_embeddings
from chatmemory.runtime.logging_config import log_uncaught_exceptions
from memory.models import Watch
from memory.queue import UNAVAILABLE
from memory.worker.watchdog import Watchdog

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Update memory in the background: a django-q2 cluster with a watchdog that restarts it when it freezes."

    def handle(self, *_args: Any, **_options: Any) -> None:
        require_tables()
        require_embeddings()
        log_uncaught_exceptions()
        stopped = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: stopped.set())
        Watchdog().run(stopped)


def require_embeddings() -> None:
    """Raise `CommandError` if the embedding model in the configured folder cannot be loaded.

    Tried in a process of its own: the model takes 150 MB, and the watchdog does not use it.
    """
    if not settings.MEMORY_EMBEDDINGS_FOLDER:
        return
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
        problem = apart.submit(local_embeddings.problem, settings.MEMORY_EMBEDDINGS_FOLDER).result()
    if problem:
        raise CommandError(f"MEMORY_EMBEDDINGS_FOLDER {problem}.")


def require_tables() -> None:
    """Raise `CommandError` if the database answers and was never migrated.

    A database that is away may come back, so that is no error. If only some migrations are missing, as in the middle
    of a deploy, this is logged and the worker starts.
    """
    try:
        problem = migration_state.problem()
        is_there = not problem or Watch._meta.db_table in connection.introspection.table_names()
    except UNAVAILABLE:
        return
    finally:
        connection.close()
    if not is_there:
        raise CommandError(problem)
    if problem:
        logger.error("database not migrated", extra={"reason": problem})
