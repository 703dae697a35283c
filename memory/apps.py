"""The app `memory`: its signals, and what is done after each `migrate`: the sweep's schedule, and the search index."""

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from memory import conf


class MemoryConfig(AppConfig):
    name = "memory"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from memory import signals  # noqa: F401  # connects its receivers

        conf.require_policies()
        post_migrate.connect(self.complete, sender=self, dispatch_uid="memory.complete")

    def complete(self, **_: Any) -> None:
        """After `migrate`: do what no migration can, unless some are missing yet, as after `migrate conversations`."""
        from chatmemory.database import startup, vector_field
        from memory import queue
        from memory.recall import index

        if startup.migrations_problem() is None:
            queue.schedule_sweep()
            index.fill()
            index.ensure()
            vector_field.ensure()
