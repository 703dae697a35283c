"""`manage.py export_chat`: print one chat as a file that `import_chat` reads back to the same values."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from conversations.interchange.rows import export_chat
from conversations.management.prompts import chat_named


class Command(BaseCommand):
    help = "Print a chat with all its messages as JSON, a superset of OpenAI's chat format."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("chat", metavar="CHAT", help="id of the chat")

    def handle(self, *_args: Any, **options: Any) -> None:
        chat = chat_named(options["chat"])
        for piece in export_chat(chat):
            self.stdout.write(piece, ending="")
