from django.apps import AppConfig
from django.db.models.signals import post_migrate, post_save


class MemoryConfig(AppConfig):
    name = "memory"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from memory import queue, signals

        post_save.connect(
            signals.message_saved, sender="conversations.Message", dispatch_uid="memory.message_saved"
        )
        post_migrate.connect(queue.schedule_sweep, sender=self, dispatch_uid="memory.schedule_sweep")
        post_migrate.connect(signals.index_messages, sender=self, dispatch_uid="memory.index_messages")
