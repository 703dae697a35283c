"""The owner's id in every row that is reached by its chat: see `chatmemory.database.owner_column`."""

from django.db import migrations, models

from chatmemory.database.owner_column import OwnerFrom, add_owner

CHAT = ("chat_id", "conversations_chat")


class Migration(migrations.Migration):

    atomic = False
    dependencies = [("conversations", "0016_owners"), ("memory", "0018_usage_of_apps_and_people")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AddField(model, "owner_id", models.IntegerField(editable=False))
                for model in (
                    "conversationbrief",
                    "summaryrevision",
                    "pin",
                    "contexttext",
                    "contextrecord",
                    "chatembeddings",
                    "messageembedding",
                )
            ],
        ),
        migrations.RunPython(
            add_owner(
                OwnerFrom("memory_conversationbrief", "chat_id", *CHAT),
                OwnerFrom("memory_summaryrevision", "id", *CHAT),
                OwnerFrom("memory_pin", "id", *CHAT),
                OwnerFrom("memory_contexttext", "id", *CHAT),
                OwnerFrom("memory_contextrecord", "reply_id", "reply_id", "conversations_message"),
                OwnerFrom("memory_chatembeddings", "chat_id", *CHAT),
                OwnerFrom("memory_messageembedding", "id", *CHAT),
            ),
            migrations.RunPython.noop,
        ),
    ]
