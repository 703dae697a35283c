"""What the first migrations made, in one. The database of an earlier version is first migrated by commit 3554c75."""

import chatmemory.database.ids
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('conversations', '0001_squashed'),
        ('conversations', '0002_chats_found_by_activity'),
        ('conversations', '0003_openai_clients'),
        ('conversations', '0004_tools'),
        ('conversations', '0005_attachments'),
        ('conversations', '0006_logprobs'),
        ('conversations', '0007_permission_in_words'),
    ]

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Chat',
            fields=[
                ('id', models.UUIDField(default=chatmemory.database.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('title', models.CharField(blank=True, default='', max_length=200)),
                ('title_is_automatic', models.BooleanField(db_default=False, default=False, editable=False)),
                ('policy', models.CharField(max_length=32)),
                ('options', models.JSONField(blank=True, default=dict)),
                ('instructions', models.TextField(blank=True, default='')),
                ('metadata', models.JSONField(blank=True, default=dict)),
                ('last_seq', models.PositiveIntegerField(default=0, editable=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='chats', to=settings.AUTH_USER_MODEL)),
                ('open_seq', models.PositiveIntegerField(db_default=0, default=0, editable=False)),
            ],
            options={
                'indexes': [
                    models.Index(fields=['owner', '-id'], name='chat_owner_newest'),
                    models.Index(fields=['-updated_at', '-id'], name='chat_last_active'),
                ],
                'permissions': [('view_content', 'Can read messages and memory')],
            },
        ),
        migrations.CreateModel(
            name='Allowance',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='allowance', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('requests_per_minute', models.PositiveIntegerField(blank=True, null=True)),
                ('tokens_per_day', models.PositiveBigIntegerField(blank=True, null=True)),
                ('streams', models.PositiveIntegerField(blank=True, null=True)),
                ('readers', models.PositiveIntegerField(blank=True, null=True)),
                ('resummarize_per_hour', models.PositiveIntegerField(blank=True, null=True)),
                ('minute', models.DateTimeField(editable=False, null=True)),
                ('minute_requests', models.IntegerField(default=0, editable=False)),
                ('day', models.DateField(editable=False, null=True)),
                ('day_tokens', models.BigIntegerField(default=0, editable=False)),
                ('day_reserved', models.BigIntegerField(default=0, editable=False)),
                ('open_streams', models.IntegerField(default=0, editable=False)),
                ('hour', models.DateTimeField(editable=False, null=True)),
                ('hour_rebuilds', models.IntegerField(db_default=0, default=0, editable=False)),
                ('exported_at', models.DateTimeField(editable=False, null=True)),
            ],
            options={
                'verbose_name': 'limits',
                'verbose_name_plural': 'limits',
            },
        ),
        migrations.CreateModel(
            name='Erasure',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('requested_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='ChatCompletion',
            fields=[
                ('message_id', models.UUIDField(primary_key=True, serialize=False)),
                ('seq', models.PositiveIntegerField()),
                ('asked', models.BinaryField(max_length=32)),
                ('question', models.BinaryField(max_length=32)),
                ('request', models.BinaryField(max_length=32)),
                ('model', models.CharField(max_length=128)),
                ('parameters', models.JSONField(default=dict)),
                ('metadata', models.JSONField(default=dict)),
                ('decision', models.CharField(max_length=16)),
                ('found_by', models.CharField(blank=True, max_length=16)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('logprobs', models.JSONField(null=True)),
                ('chat', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.chat')),
                ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [
                    models.Index(fields=['user', 'asked'], name='completion_asked'),
                    models.Index(fields=['user', 'question'], name='completion_question'),
                    models.Index(fields=['user', 'message_id'], name='completion_listed'),
                ],
            },
        ),
        migrations.CreateModel(
            name='ContentView',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('viewer_name', models.CharField(max_length=150)),
                ('owner_id', models.BigIntegerField(null=True)),
                ('chat_id', models.UUIDField(db_index=True)),
                ('page', models.CharField(max_length=64)),
                ('object_id', models.CharField(max_length=64)),
                ('at', models.DateTimeField(auto_now_add=True, db_index=True)),
                ('viewer', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'audit log entry',
                'verbose_name_plural': 'audit log',
                'indexes': [models.Index(fields=['viewer'], name='content_view_viewer')],
            },
        ),
        migrations.CreateModel(
            name='IdempotencyKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=128)),
                ('request_hash', models.CharField(max_length=64)),
                ('user_message_id', models.UUIDField()),
                ('message_id', models.UUIDField()),
                ('created_at', models.DateTimeField(db_index=True)),
                ('chat', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.chat')),
                ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('user', 'key'), name='idempotency_user_key')],
            },
        ),
        migrations.CreateModel(
            name='Message',
            fields=[
                ('id', models.UUIDField(default=chatmemory.database.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('seq', models.PositiveIntegerField()),
                ('role', models.CharField(choices=[('user', 'User'), ('assistant', 'Assistant'), ('tool_call', 'Tool call'), ('tool', 'Tool output')], max_length=16)),
                ('content', models.TextField(blank=True)),
                ('status', models.CharField(choices=[('complete', 'Complete'), ('incomplete', 'Incomplete'), ('failed', 'Failed'), ('cancelled', 'Cancelled'), ('deleted', 'Deleted')], max_length=16)),
                ('model_variant', models.CharField(blank=True, default='', max_length=64)),
                ('model', models.CharField(blank=True, default='', max_length=128)),
                ('token_count', models.PositiveIntegerField(default=0)),
                ('outline', models.CharField(blank=True, default='', max_length=400)),
                ('line', models.TextField(blank=True, default='')),
                ('terms', models.TextField(editable=False, null=True)),
                ('response_id', models.CharField(blank=True, default='', max_length=200)),
                ('input_tokens', models.PositiveIntegerField(blank=True, null=True)),
                ('cached_tokens', models.PositiveIntegerField(blank=True, null=True)),
                ('output_tokens', models.PositiveIntegerField(blank=True, null=True)),
                ('cost_usd', models.DecimalField(blank=True, decimal_places=9, max_digits=16, null=True)),
                ('error', models.JSONField(blank=True, null=True)),
                ('metadata', models.JSONField(blank=True, default=dict)),
                ('created_at', models.DateTimeField()),
                ('completed_at', models.DateTimeField(blank=True, null=True)),
                ('edited_at', models.DateTimeField(blank=True, null=True)),
                ('chat', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='messages', to='conversations.chat')),
                ('payload', models.JSONField(blank=True, editable=False, null=True)),
                ('reply_to', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='replies', to='conversations.message')),
                ('superseded_by', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='supersedes', to='conversations.message')),
            ],
            options={
                'indexes': [
                    models.Index(condition=models.Q(('reply_to__isnull', False)), fields=['reply_to'], name='message_reply_to'),
                    models.Index(condition=models.Q(('superseded_by__isnull', False)), fields=['superseded_by'], name='message_superseded_by'),
                    models.Index(condition=models.Q(('terms__isnull', True)), fields=['id'], name='message_not_analysed'),
                    models.Index(condition=models.Q(('status', 'failed')), fields=['-id', 'chat'], name='message_failed'),
                ],
                'constraints': [
                    models.UniqueConstraint(fields=('chat', 'seq'), name='message_chat_seq'),
                    models.CheckConstraint(condition=models.Q(('seq__gte', 1)), name='message_seq_from_one'),
                    models.CheckConstraint(condition=models.Q(('status__in', ['complete', 'incomplete', 'failed', 'cancelled', 'deleted'])), name='message_status_final'),
                    models.CheckConstraint(condition=models.Q(('role__in', ['user', 'assistant', 'tool_call', 'tool'])), name='message_role_known'),
                    models.CheckConstraint(condition=models.Q(('role', 'assistant'), ('reply_to', None), _connector='OR'), name='message_only_replies_reply'),
                    models.CheckConstraint(condition=models.Q(models.Q(('role', 'user'), _negated=True), ('superseded_by', None), _connector='OR'), name='message_questions_stand'),
                ],
            },
        ),
        migrations.CreateModel(
            name='NamedConversation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=300)),
                ('chat', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.chat')),
                ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('user', 'name'), name='named_conversation')],
            },
        ),
        migrations.CreateModel(
            name='PassingCall',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('reserved_tokens', models.BigIntegerField(default=0)),
                ('reserved_day', models.DateField(null=True)),
                ('reserved_minute', models.DateTimeField(null=True)),
                ('expires_at', models.DateTimeField(db_index=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='StoredAttachment',
            fields=[
                ('id', models.UUIDField(default=chatmemory.database.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('sha256', models.CharField(max_length=64)),
                ('media_type', models.CharField(max_length=255)),
                ('size', models.PositiveIntegerField()),
                ('data', models.BinaryField()),
                ('sent_at', models.DateTimeField(db_index=True)),
                ('messages', models.ManyToManyField(db_constraint=False, related_name='stored_attachments', to='conversations.message')),
                ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('user', 'sha256'), name='attachment_once_a_user')],
            },
        ),
        migrations.CreateModel(
            name='ActiveReply',
            fields=[
                ('reserved_tokens', models.BigIntegerField(default=0)),
                ('reserved_day', models.DateField(null=True)),
                ('reserved_minute', models.DateTimeField(null=True)),
                ('chat', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='active_reply', serialize=False, to='conversations.chat')),
                ('message_id', models.UUIDField(unique=True)),
                ('supersedes', models.UUIDField(blank=True, null=True)),
                ('model_variant', models.CharField(max_length=64)),
                ('model', models.CharField(max_length=128)),
                ('metadata', models.JSONField(default=dict)),
                ('context', models.JSONField(default=dict)),
                ('text', models.TextField(default='')),
                ('owner', models.CharField(db_index=True, max_length=100)),
                ('lease_expires_at', models.DateTimeField(db_index=True)),
                ('cancel_requested', models.BooleanField(default=False)),
                ('started_at', models.DateTimeField()),
                ('user_message', models.ForeignKey(on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='conversations.message')),
            ],
            options={
                'verbose_name': 'reply being written',
                'verbose_name_plural': 'replies being written',
            },
        ),
    ]
