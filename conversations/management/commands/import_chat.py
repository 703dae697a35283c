"""`manage.py import_chat`: import conversations from files into a user's chats."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from chatmemory.errors import InvalidRequest
from chatmemory.runtime.escape import plain
from conversations.interchange.rows import check_chat, import_chat
from conversations.interchange.values import ImportedChat
from conversations.management.prompts import chats_in, user_named


class Command(BaseCommand):
    help = "Import conversations from files; prints the id of each new chat, one per line."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "files", nargs="+", metavar="FILE", type=Path, help="JSON or JSON lines, in UTF-8"
        )
        parser.add_argument(
            "--user", required=True, metavar="U", help="name of the user who will own the chats"
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="only read the files and report what they contain"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        user = user_named(options["user"])
        # All files are read before the first chat is stored, so that a mistake in the last one imports nothing.
        chats = [chat for path in options["files"] for chat in _read(path)]
        if options["dry_run"]:
            self._tell(chats)
            return
        for chat in chats:
            try:
                self.stdout.write(str(import_chat(user, chat).pk))
            except DatabaseError as exc:
                reason = type(exc).__name__  # its text may contain what people said
                raise CommandError(f"The database refused a chat; it was not stored ({reason}).") from exc

    def _tell(self, chats: Sequence[ImportedChat]) -> None:
        messages = total = 0
        for chat in chats:
            characters = sum(len(message.content) for message in chat.messages)
            messages, total = messages + len(chat.messages), total + characters
            title = plain(chat.title or str(chat.metadata.get("source_id", "untitled")))
            self.stdout.write(f"{title}: {len(chat.messages)} messages, {characters} characters")
        what = f"{len(chats)} chats, {messages} messages, {total} characters"
        self.stdout.write(f"Total: {what}. Importing is free; nothing was imported.")


def _read(path: Path) -> list[ImportedChat]:
    chats = chats_in(path)
    try:
        for chat in chats:
            check_chat(chat)
    except InvalidRequest as exc:
        raise CommandError(f"{plain(str(path))}: {exc}") from exc
    return chats
