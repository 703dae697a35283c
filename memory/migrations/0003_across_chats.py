import uuid

from django.conf import settings
from django.db import migrations, models
from django.db.models import CASCADE, SET_NULL, Q

from chatmemory.database.ids import new_id

SCOPES = [("chat", "Chat"), ("project", "Project"), ("person", "Person")]
NUMBER_ONCE = models.UniqueConstraint(fields=("scope", "number"), name="scoped_message_number")
MESSAGE_ONCE = models.UniqueConstraint(fields=("chat", "seq"), name="scoped_message_once")


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("conversations", "0004_across_chats"),
        ("memory", "0002_plain_keys"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        migrations.CreateModel("Consent", [
            ("user", models.OneToOneField(on_delete=CASCADE, primary_key=True, related_name="consent", serialize=False, to=settings.AUTH_USER_MODEL)),
            ("across", models.CharField(choices=[("off", "Off"), ("pins", "Pins"), ("all", "All")], max_length=4)),
            ("lifts_pins", models.BooleanField(default=False)),
            ("given_by", models.ForeignKey(blank=True, null=True, on_delete=SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL)),
            ("given_at", models.DateTimeField(auto_now=True)),
        ], {"verbose_name": "memory across chats", "verbose_name_plural": "memory across chats", "default_permissions": ("view",)}),
        migrations.CreateModel("MemoryScope", [
            ("id", models.UUIDField(default=new_id, editable=False, primary_key=True, serialize=False)),
            ("owner", models.ForeignKey(db_index=False, on_delete=CASCADE, related_name="+", to=settings.AUTH_USER_MODEL)),
            ("project", models.CharField(blank=True, default="", max_length=100)),
            ("last_number", models.PositiveBigIntegerField(default=0)),
            ("fill_after", models.UUIDField(default=uuid.UUID(int=0), null=True)),
        ], {"default_permissions": (), "constraints": [models.UniqueConstraint(fields=("owner", "project"), name="memory_scope_once")], "indexes": [models.Index(condition=Q(("fill_after__isnull", False)), fields=["id"], name="memory_scope_to_fill")]}),
        migrations.CreateModel("ScopedMessage", [
            ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("owner_id", models.IntegerField(editable=False)),
            ("scope", models.ForeignKey(db_index=False, on_delete=CASCADE, related_name="messages", to="memory.memoryscope")),
            ("number", models.PositiveBigIntegerField()),
            ("chat", models.ForeignKey(db_index=False, on_delete=CASCADE, related_name="+", to="conversations.chat")),
            ("seq", models.PositiveIntegerField()),
            ("terms", models.TextField(editable=False)),
            ("used", models.PositiveIntegerField(default=0)),
        ], {"default_permissions": (), "constraints": [NUMBER_ONCE, MESSAGE_ONCE], "indexes": [models.Index(condition=Q(("used__gt", 0)), fields=["owner_id", "-id"], name="scoped_message_used")]}),
        migrations.AddField("pin", "muted_at", models.DateTimeField(blank=True, null=True)),
        migrations.AddField("pin", "scope", models.CharField(choices=SCOPES, db_default="chat", default="chat", max_length=8)),
        migrations.AddField("pin", "used", models.IntegerField(db_default=0, default=0, editable=False)),
    ]
