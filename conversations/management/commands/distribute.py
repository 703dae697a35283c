"""`manage.py distribute`: spread the rows of owners over the nodes of a Citus cluster."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection, transaction

from chatmemory.database import distribution


class Command(BaseCommand):
    help = "Spread the rows of owners over the nodes of a Citus cluster. Prints every statement that it runs."
    requires_migrations_checks = True

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only print the statements")

    def handle(self, *_args: Any, **options: Any) -> None:
        if connection.vendor != "postgresql":
            raise CommandError("Only PostgreSQL with the extension Citus can distribute tables.")
        if not options["dry_run"] and not distribution.is_citus(connection):
            raise CommandError("This database lacks the extension Citus: see docs/scale.md.")
        with transaction.atomic(), connection.cursor() as cursor:
            for statement in distribution.statements(connection):
                self.stdout.write(f"{statement};")
                if not options["dry_run"]:
                    cursor.execute(statement)
