"""`manage.py export_chat`: write one chat to a file that `import_chat` reads back to the same values."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from chatmemory.runtime.escape import plain
from conversations.interchange.rows import chat_values, message_values
from conversations.interchange.values import export_chat_text
from conversations.management.prompts import chat_named


class Command(BaseCommand):
    help = "Export a chat with all its messages as JSON, a superset of OpenAI's chat format."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("chat", metavar="CHAT", help="id of the chat")
        parser.add_argument(
            "--out", metavar="F", type=Path, help="file to write or replace; default: standard output"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        chat = chat_named(options["chat"])
        pieces = export_chat_text(chat_values(chat), message_values(chat))
        out: Path | None = options["out"]
        if out is None:
            for piece in pieces:
                self.stdout.write(piece, ending="")
            return
        try:
            _write(out, pieces)
        except OSError as exc:
            raise CommandError(f"{plain(str(out))}: {exc.strerror or exc}") from exc
        count = f"{chat.last_seq:,} message{'' if chat.last_seq == 1 else 's'}"
        self.stdout.write(f"{count} written to {plain(str(out))}.")


def _write(path: Path, pieces: Iterator[str]) -> None:
    """Replace `path` atomically: a reader finds the old file or the whole new one, which only its owner can read."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
