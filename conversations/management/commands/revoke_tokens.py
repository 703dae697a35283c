"""`manage.py revoke_tokens`: revoke all tokens of a user and, with `--sessions`, end their sessions."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from chatmemory.runtime.escape import plain
from conversations.accounts import api_tokens


class Command(BaseCommand):
    help = "Revoke all API tokens of a user. The next call with any of them is refused, by every server."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER", help="name of the user, who may be inactive")
        parser.add_argument(
            "--sessions", action="store_true", help="also end their sessions in admin and playground"
        )

    def handle(self, *_args: Any, **options: Any) -> str:
        name = plain(options["user"])
        user = User.objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"There is no user {name}.")
        told = f"{name}: tokens revoked: {api_tokens.revoke(user.pk)}"
        if options["sessions"]:
            told += f", sessions ended: {api_tokens.end_sessions(user.pk)}"
        return f"{told}."
