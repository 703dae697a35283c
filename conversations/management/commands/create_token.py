"""`manage.py create_token`: create a token for a user and print it once."""

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from chatmemory.runtime.escape import plain
from conversations.accounts import api_tokens
from conversations.accounts.end_users import create_account
from conversations.accounts.models import TOKEN_NAME_CHARS, App, Scope
from conversations.management.prompts import user_named

MAX_DAYS = 36_500
"""A hundred years; a larger number is a mistake."""


class Command(BaseCommand):
    help = (
        "Make a new API token for a user and print it; it is stored hashed and cannot be shown again. With --create, "
        "make the user, too, if there is none of that name: a normal account without a password."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER", help="name of the user")
        parser.add_argument("--expires", metavar="DAYS", type=int, help="days until it expires; default: never")
        parser.add_argument("--create", action="store_true", help="make the user if there is none of that name")

        parser.add_argument("--name", default="", help="what the token is for, shown in lists of tokens")
        parser.add_argument(
            "--scope",
            action="append",
            default=[],
            choices=Scope.values,
            help=f"what its bearer may do, may be given several times; default: {Scope.CHAT}",
        )

    def handle(self, *_args: Any, **options: Any) -> str:
        days: int | None = options["expires"]
        if days is not None and not 1 <= days <= MAX_DAYS:
            raise CommandError(f"--expires must be from 1 to {MAX_DAYS} days.")
        if options["create"] and not User.objects.filter(username=options["user"]).exists():
            try:
                create_account(options["user"])
            except ValidationError as error:
                raise CommandError(f"{plain(options['user'])!r} cannot be a user's name: {error.messages[0]}") from None
        user = user_named(options["user"])
        expiry = None if days is None else timedelta(days=days)
        if Scope.ACT_FOR_USERS in options["scope"] and not App.objects.filter(pk=user.pk).exists():
            raise CommandError(f"{plain(user.username)} is not an app: `manage.py create_app` makes one.")
        if {Scope.READ_ONLY, Scope.REMEMBER_NAMED} <= {*options["scope"]}:
            raise CommandError(f"A token that is {Scope.READ_ONLY} cannot remember: leave out one of the scopes.")
        issued = api_tokens.issue(user, expiry, options["name"][:TOKEN_NAME_CHARS], options["scope"])
        if issued is None:
            raise CommandError("The account was changed meanwhile: try again.")
        return issued[1]
