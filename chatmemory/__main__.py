"""The command line: `manage.py` in a checkout, `chatmemory` where the wheel is installed.

`python -m chatmemory` works in both. Where the database cannot be used, it says so in one sentence.
"""

import os
import sys

from django.core.management import ManagementUtility, get_commands, load_command_class

OURS = {"chatmemory", "conversations", "memory"}
"""The apps whose commands `help` shows first."""
POOLED = {"worker", "quickstart"}
"""Commands that stay, with threads that share a pool. `qcluster` forks, which a pool does not survive."""
FIRST_LOOK = "quickstart"
"""The playground is open, and logs are for people, unless the environment says otherwise."""


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
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        sys.exit(130)  # as a shell has it


def _run(command: str) -> None:
    from django.conf import settings
    from django.db import DatabaseError, InterfaceError

    from chatmemory.database import startup

    database = settings.DATABASES["default"]
    if command not in POOLED:
        settings.DATABASES["default"] = startup.without_pool(database)
    elif problem := startup.problem(database):  # a pool would wait for it
        sys.exit(problem)
    try:
        CommandLine(sys.argv).execute()
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


class CommandLine(ManagementUtility):
    """Django's command line, except that `help` begins with our commands."""

    def main_help_text(self, commands_only: bool = False) -> str:
        text = super().main_help_text(commands_only)
        ours = {name: load_command_class(app, name) for name, app in get_commands().items() if app in OURS}
        lines = [f"  {name:16}{ours[name].help.partition('. ')[0].rstrip('.')}." for name in sorted(ours)]
        return text if commands_only else "\n".join(["Commands of chatmemory:", "", *lines, text])


if __name__ == "__main__":
    main()
