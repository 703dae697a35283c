"""`manage.py create_app`: make an app, and a token with which it acts for its end users."""

from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from chatmemory.runtime.escape import plain
from conversations.accounts import api_tokens
from conversations.accounts.end_users import create_app
from conversations.accounts.models import Scope


class Command(BaseCommand):
    help = (
        "Make an app and print an API token with which it acts for its end users; the token is stored hashed and "
        "cannot be shown again. Its account has the app's name and no password; `create_token` makes more tokens."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="name of the app, and of its account")
        told = "let requests that name no end user have chats of the app's own; default: they are refused"
        parser.add_argument("--own-chats", action="store_true", help=told)

    def handle(self, *_args: Any, **options: Any) -> str:
        try:
            app = create_app(options["name"], requires_end_user=not options["own_chats"])
        except ValidationError as error:
            raise CommandError(f"{plain(options['name'])!r} cannot be an app's name: {error.messages[0]}") from None
        issued = api_tokens.issue(app.user, None, "create_app", [Scope.ACT_FOR_USERS])
        assert issued is not None  # no other request knows the account yet
        return issued[1]
