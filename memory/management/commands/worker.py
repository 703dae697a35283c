"""`manage.py worker`: update memory in the background, until a signal ends it."""

import logging
import os
import signal
import socket
import threading
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from chatmemory import metrics
from chatmemory.database import startup
from chatmemory.llm import registry
from chatmemory.runtime import process, tracing
from chatmemory.runtime.logs import log_uncaught_exceptions
from chatmemory.text import tokens
from memory.models import Worker
from memory.worker import alive
from memory.worker.loop import TaskRunner


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
        Worker.objects.exists()  # fails where nothing is migrated yet
        startup.log_missing_migrations()
        log_uncaught_exceptions()
        tokens.load()
        registry.load()
        tracing.set_up(settings.SECRET_KEY, process.name())
        if port := settings.METRICS_PORT:
            try:
                metrics.serve(port)
            except OSError as exc:
                reason = os.strerror(exc.errno or 0)
                raise CommandError(f"METRICS_PORT {port} cannot be used ({reason}).") from None
        process.settle()
        stopped = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: stopped.set())
        has_ended = TaskRunner().run(stopped)
        tracing.shut_down()
        if not has_ended:
            logging.shutdown()
            os._exit(0)  # a thread still waits for a summarizer or a receiver, whose answer is not wanted any more
