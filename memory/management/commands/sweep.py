"""`manage.py sweep`: run the worker's scheduled sweep now, in this process."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from memory.worker.sweep import sweep


class Command(BaseCommand):
    help = "Find and repair what a crash left behind: stale replies, due chats, lost tasks, expired rows."

    def handle(self, *_args: Any, **_options: Any) -> str:
        report = sweep()
        return "\n".join(
            [
                f"{report['replies_finished']} stale replies finished",
                f"{report['chats_enqueued']} chats queued for an update",
                f"{report['keys_removed']} expired idempotency keys removed",
                f"{report['tokens_removed']} expired tokens removed",
                f"{report['failures_removed']} old task failures removed",
                f"{report['users_erased']} users erased",
            ]
        )
