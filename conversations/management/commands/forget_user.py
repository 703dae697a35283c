"""`manage.py forget_user`: erase a user and all their data, or continue an erasure that stopped."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from chatmemory.runtime.escape import plain
from conversations import account_deletion
from conversations.management.prompts import require_yes, user_named


class Command(BaseCommand):
    help = "Delete a user: chats, memory, tokens, sessions and the account itself. This cannot be undone."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER", help="name of the user, who may be inactive")
        parser.add_argument("--yes", action="store_true", help="do not ask")

    def handle(self, *_args: Any, **options: Any) -> str:
        user = user_named(options["user"], may_be_inactive=True)
        chats, messages = account_deletion.chat_and_message_counts(user)
        what = f"{plain(user.username)} with {chats} chats and {messages} messages"
        require_yes(f"Erase {what}?", self, options)
        account_deletion.request_erasure(user.pk)
        account_deletion.erase(user.pk)
        return f"Erased: {what}."
