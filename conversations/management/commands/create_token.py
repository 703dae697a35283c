"""`manage.py create_token`: create a token for a user and print it once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from knox.models import AuthToken

from conversations.management.prompts import user_named

MAX_DAYS = 36_500
"""A hundred years; a larger number is a mistake."""


class Command(BaseCommand):
    help = "Make a new API token for a user and print it; it is stored hashed and cannot be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER", help="name of the user")
        parser.add_argument(
            "--expires", metavar="DAYS", type=int, help="days until it expires; default: never"
        )

    def handle(self, *_args: Any, **options: Any) -> str:
        days: int | None = options["expires"]
        if days is not None and not 1 <= days <= MAX_DAYS:
            raise CommandError(f"--expires must be from 1 to {MAX_DAYS} days.")
        user = user_named(options["user"])
        expiry = None if days is None else timedelta(days=days)
        _, token = AuthToken.objects.create(user, expiry=expiry)
        return str(token)
