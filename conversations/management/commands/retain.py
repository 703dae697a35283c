"""`manage.py retain`: erase the chats that are over, say which are, and print or replay the log of erasures."""

import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from chatmemory.errors import ChatMemoryError
from conversations.retention import due, log


class Command(BaseCommand):
    help = "Erase the chats whose time is over, as the worker does each minute. See docs/retention.md."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--since", metavar="ISO", type=_time, help="with --log: only what was erased since")
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--dry-run", action="store_true", help="only count them, by rule")
        which.add_argument("--log", action="store_true", help="print the log of all erasures, as lines of JSON")
        which.add_argument(
            "--replay",
            metavar="FILE",
            help="erase again what this log names, in a database that was restored; - for standard input",
        )

    def handle(self, *_args: Any, **options: Any) -> str | None:
        if options["log"]:
            for line in log.lines(options["since"]):
                self.stdout.write(line)
            return None
        if options["replay"]:
            return self._replay(options["replay"])
        if options["dry_run"]:
            return "\n".join(f"{chats.count():>12,}  {rule}" for rule, chats in due.due_chats())
        return f"Erased: {due.erase_due():,} chats."

    def _replay(self, file: str) -> str:
        try:
            with nullcontext(sys.stdin) if file == "-" else Path(file).open(encoding="utf-8") as text:
                ids = log.read(text)
        except (OSError, ValueError) as exc:
            raise CommandError(f"{exc} Nothing was erased.") from exc
        try:
            erased, gone = log.replay(ids)
        except ChatMemoryError as exc:
            raise CommandError(f"{exc.message} Run this again: what is erased stays erased.") from exc
        return f"Erased: {erased:,}. Already gone: {gone:,}."


def _time(text: str) -> datetime:
    """Return the time that a text says, in UTC unless it says otherwise."""
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)
