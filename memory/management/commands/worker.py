"""`manage.py worker`: update memory in the background, until a signal ends it."""

import logging
import os
import signal
import socket
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from chatmemory.database import startup
from chatmemory.llm import registry
from chatmemory.runtime import process
from chatmemory.runtime.logs import log_uncaught_exceptions
from chatmemory.text import tokens
from memory.models import Worker
from memory.queue import UNAVAILABLE
from memory.worker import alive
from memory.worker.loop import TaskRunner

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Update memory in the background: takes tasks from the queue and runs them in threads, until it is stopped."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--check",
            action="store_true",
            help="only say whether a worker is alive on this machine, as a health check",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        if options["check"]:
            if problem := alive.problem(socket.gethostname()[:60]):
                raise CommandError(problem)
            return
        require_tables()
        log_uncaught_exceptions()
        tokens.load()
        registry.load()
        process.settle()
        stopped = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: stopped.set())
        if not TaskRunner().run(stopped):
            logging.shutdown()
            os._exit(0)  # a thread still waits for the summarizer, whose answer is not wanted any more


def require_tables() -> None:
    """Raise `CommandError` if the database answers and was never migrated.

    A database that is away may come back, so that is no error. If only some migrations are missing, as in the middle
    of a deploy, this is logged and the worker starts.
    """
    try:
        problem = startup.migrations_problem()
        is_there = not problem or Worker._meta.db_table in connection.introspection.table_names()
    except UNAVAILABLE:
        return
    finally:
        connection.close()
    if not is_there:
        raise CommandError(problem)
    if problem:
        logger.error("database not migrated", extra={"reason": problem})
