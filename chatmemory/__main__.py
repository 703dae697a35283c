"""The command line: `manage.py` in a checkout, `chatmemory` where the wheel is installed.

`python -m chatmemory` works in both. Where the database cannot be used, it says so in one sentence.
"""

import os
import sys

POOLED = {"worker", "quickstart"}
"""Commands that stay, with threads that share a pool. `qcluster` forks, which a pool does not survive."""
FIRST_LOOK = "quickstart"
"""Anybody gets the playground, and logs are for people, unless the environment says otherwise."""


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatmemory.settings")
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command == FIRST_LOOK:
        os.environ.setdefault("LOG_FORMAT", "console")
        os.environ["PLAYGROUND"] = os.environ.get("PLAYGROUND", "").strip() or "open"
    from django.core.exceptions import ImproperlyConfigured

    try:
        _run(command)
    except ImproperlyConfigured as exc:
        sys.exit(f"chatmemory cannot start: {exc}")


def _run(command: str) -> None:
    from django.conf import settings
    from django.core.management import execute_from_command_line
    from django.db import DatabaseError, InterfaceError

    from chatmemory.database import startup

    database = settings.DATABASES["default"]
    if command not in POOLED:
        settings.DATABASES["default"] = startup.without_pool(database)
    elif problem := startup.problem(database):  # a pool would wait for it
        sys.exit(problem)
    try:
        execute_from_command_line(sys.argv)
        if sys.stdout:  # None where it was closed
            sys.stdout.flush()
    except BrokenPipeError:  # `head` has seen enough
        os._exit(1)
    except (DatabaseError, InterfaceError):
        problem = startup.problem(database)
        if command != "migrate":  # whose own error tells more
            problem = problem or startup.migrations_problem()
        if problem:
            sys.exit(problem)
        raise


if __name__ == "__main__":
    main()
