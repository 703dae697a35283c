"""`manage.py revoke_tokens`: revoke all tokens of a user and, with `--sessions`, end their sessions."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from chatmemory.runtime.escape import plain
from conversations.accounts import api_tokens
from conversations.management.prompts import user_named


class Command(BaseCommand):
    help = "Revoke all API tokens of a user. The next call with any of them is refused, by every server."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER", help="name of the user, who may be inactive")
        parser.add_argument("--sessions", action="store_true", help="also end their sessions in admin and playground")

    def handle(self, *_args: Any, **options: Any) -> str:
        user = user_named(options["user"], may_be_inactive=True)
        result = f"{plain(user.username)}: tokens revoked: {api_tokens.revoke(user.pk)}"
        if options["sessions"]:
            result += f", sessions ended: {api_tokens.end_sessions(user.pk)}"
        return f"{result}."
