"""`manage.py forget_message`: remove a message's content and what memory derived from it."""

from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from chatmemory.errors import ChatMemoryError
from conversations.management.prompts import require_yes
from conversations.message_changes import forget_message
from conversations.models import Message


class Command(BaseCommand):
    help = "Delete a message: its text, and everything memory derived from it. This cannot be undone."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("chat", metavar="CHAT", type=UUID, help="id of the chat")
        parser.add_argument("message", metavar="MESSAGE", type=UUID, help="id of the message")
        parser.add_argument("--yes", action="store_true", help="do not ask")

    def handle(self, *_args: Any, **options: Any) -> str:
        message = Message.objects.filter(pk=options["message"], chat=options["chat"]).first()
        if message is None:
            raise CommandError(f"There is no message {options['message']} in chat {options['chat']}.")
        what = f"message {message.seq} of chat {message.chat_id} ({message.role}, {len(message.content)} characters)"
        require_yes(f"Forget {what}?", self, options)
        try:
            forget_message(message.chat_key, message.pk)
        except ChatMemoryError as exc:
            raise CommandError(exc.message) from exc
        return f"Forgotten: message {message.seq} of chat {message.chat_id}."
