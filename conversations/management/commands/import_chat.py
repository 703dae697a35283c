"""`manage.py import_chat`: import conversations from files into a user's chats."""

from collections import Counter
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from chatmemory.runtime.escape import plain
from conversations.interchange.exports import Export, is_export
from conversations.interchange.importing import ImportReport, import_export
from conversations.interchange.rows import import_chat
from conversations.interchange.services import in_words
from conversations.interchange.values import FormatError
from conversations.management.prompts import chats_in, progress_bar, user_named


class Command(BaseCommand):
    help = "Import conversations from files; prints the id of each new chat, or counts of an export."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "files",
            nargs="+",
            metavar="FILE",
            type=Path,
            help="JSON or JSON lines (UTF-8), or an export's zip",
        )
        parser.add_argument("--user", required=True, metavar="U", help="name of the user who will own the chats")
        parser.add_argument("--dry-run", action="store_true", help="only read the files and report what they contain")

    def handle(self, *_args: Any, **options: Any) -> None:
        user, is_dry_run = user_named(options["user"]), bool(options["dry_run"])
        exports = [path for path in options["files"] if _is_export(path)]
        # All other files are read before the first chat is stored, so that a mistake in the last one imports nothing.
        others = [path for path in options["files"] if path not in exports]
        chats = [chat for path in others for chat in chats_in(path)]
        if left_out := sum((Counter(chat.left_out) for chat in chats), Counter()):
            self.stderr.write(f"{in_words(left_out)}.")
        if is_dry_run and others:
            messages = sum(len(chat.messages) for chat in chats)
            self.stdout.write(f"{len(chats)} chats, {messages} messages to import.")
        try:
            for chat in () if is_dry_run else chats:
                self.stdout.write(str(import_chat(user, chat).pk))
            failed = sum(self._import(user, path, is_dry_run) for path in exports)
        except (DatabaseError, User.DoesNotExist) as exc:
            reason = type(exc).__name__  # its text may contain what people said
            raise CommandError(f"The database refused a chat; it was not stored ({reason}).") from exc
        if failed:
            raise CommandError(f"Conversations that could not be imported: {failed}.")

    def _import(self, user: User, path: Path, is_dry_run: bool) -> int:
        """Import an export, report what became of it, and return how many conversations could not be imported."""
        report, at = ImportReport(), 0
        try:
            with path.open("rb") as file:
                export = Export(file)
                with progress_bar(path.name, export.size, self.stderr) as advance:
                    for _ in import_export(user, export, report, is_dry_run=is_dry_run):
                        advance(export.position - at)
                        at = export.position
        except FormatError as exc:
            raise CommandError(f"{plain(str(path))}: {exc}") from exc
        for failure in report.failures:
            self.stderr.write(plain(failure))
        self.stdout.write(
            f"{plain(path.name)}: {report.chats} chats, {report.messages} messages"
            f"{' to import' if is_dry_run else ' imported'}; {report.already_there} chats already there, "
            f"{report.empty} empty, {in_words(report.left_out)}."
        )
        return report.failed


def _is_export(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return is_export(file)
    except OSError:  # reported when it is read
        return False
