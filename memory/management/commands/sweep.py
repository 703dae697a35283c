"""`manage.py sweep`: run the worker's scheduled sweep now, in this process."""

from typing import Any

from django.core.management.base import BaseCommand

from memory.worker.sweep import sweep


class Command(BaseCommand):
    help = "Find and repair what a crash left behind: stale replies, due chats, lost tasks, expired rows."

    def handle(self, *_args: Any, **_options: Any) -> str:
        return "\n".join(f"{count} {name.replace('_', ' ')}" for name, count in sweep().items())
