from django.apps import AppConfig
from django.db.models.signals import post_migrate, post_save


class MemoryConfig(AppConfig):
    name = "memory"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chatmemory.database import owner_column
        from memory import queue, turn, updates
        from memory.recall import index

        saved_uid = "memory.message_saved"
        post_save.connect(turn.message_saved, sender="conversations.Message", dispatch_uid=saved_uid)
        version_uid = "memory.version_saved"
        post_save.connect(updates.version_saved, sender="memory.SummaryRevision", dispatch_uid=version_uid)
        keys_uid = "memory.complete_keys"
        post_migrate.connect(owner_column.complete_keys, sender=self, dispatch_uid=keys_uid)
        post_migrate.connect(queue.schedule_sweep, sender=self, dispatch_uid="memory.schedule_sweep")
        post_migrate.connect(index.index_messages, sender=self, dispatch_uid="memory.index_messages")
