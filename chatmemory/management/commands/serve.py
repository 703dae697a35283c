"""`chatmemory serve`: run the server. The process becomes that of uvicorn, which so has its signals and its memory."""

import os
import sys

from django.conf import settings
from django.core.management.base import BaseCommand

SERVER = ["uvicorn", "chatmemory.asgi:application", "--http", "chatmemory.http_protocol:HttpProtocol"]


class Command(BaseCommand):
    help = "Run the server. Takes uvicorn's options, such as --host, --port and --workers; --help lists them."

    def run_from_argv(self, argv: list[str]) -> None:
        # Without an answer for this long, uvicorn ends a process; its 5 s are short for a loaded machine.
        patience = ["--app-dir", str(settings.BASE_DIR), "--timeout-worker-healthcheck", "30"]
        os.execv(sys.executable, [sys.executable, "-m", *SERVER, *patience, *argv[2:]])  # noqa: S606  # by the operator
