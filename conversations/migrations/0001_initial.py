"""All tables, as commit fe405414 of 26 November 2026 had them."""

import chatmemory.database.expressions
import chatmemory.database.ids
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('conversations', '0001_to_0007'),
        ('conversations', '0008_to_0013'),
        ('conversations', '0014_apps'),
        ('conversations', '0015_fill_chats'),
        ('conversations', '0016_owners'),
    ]

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('knox', '0009_extend_authtoken_field'),
    ]

    operations = [
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
            ],
            options={
                'verbose_name': 'limits',
                'verbose_name_plural': 'limits',
            },
        ),
        migrations.CreateModel(
            name='App',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='app', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('retain_days', models.PositiveIntegerField(blank=True, help_text='Days after its last message at which a chat is erased; 0 for never, empty for those of the server.', null=True, validators=[django.core.validators.MaxValueValidator(36500)])),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('webhook_url', models.CharField(blank=True, db_default='', default='', max_length=2000)),
                ('webhook_events', models.CharField(blank=True, db_default='', default='', max_length=200)),
                ('webhook_secret', models.CharField(blank=True, db_default='', default='', editable=False, max_length=100)),
            ],
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
            name='TokenGrant',
            fields=[
                ('token', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='grant', serialize=False, to='knox.authtoken')),
                ('name', models.CharField(blank=True, max_length=100)),
                ('scopes', models.JSONField(default=list)),
            ],
            options={
                'default_permissions': (),
            },
        ),
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
                ('open_seq', models.PositiveIntegerField(db_default=0, default=0, editable=False)),
                ('pinned', models.BooleanField(db_default=False, default=False)),
                ('retain_days', models.PositiveIntegerField(blank=True, null=True)),
                ('temporary', models.BooleanField(db_default=False, default=False, editable=False)),
                ('last_message_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), default=django.utils.timezone.now, editable=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='chats', to=settings.AUTH_USER_MODEL)),
                ('app', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.app')),
            ],
            options={
                'permissions': [('view_content', 'Can read messages and memory')],
                'indexes': [models.Index(fields=['owner', '-id'], name='chat_owner_newest'), models.Index(fields=['-updated_at', '-id'], name='chat_last_active'), models.Index(condition=models.Q(('app__isnull', False)), fields=['app', '-updated_at', '-id'], name='chat_app_last_active'), models.Index(condition=models.Q(('pinned', False), ('retain_days__isnull', True), ('temporary', False)), fields=['app', 'last_message_at'], name='chat_kept_by_app'), models.Index(chatmemory.database.expressions.DaysAfter('last_message_at', 'retain_days'), condition=models.Q(('pinned', False), ('retain_days__isnull', False), ('temporary', False)), name='chat_kept_by_itself'), models.Index(condition=models.Q(('temporary', True)), fields=['last_message_at'], name='chat_temporary')],
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
                ('end_user', models.CharField(blank=True, db_default='', default='', max_length=64)),
                ('model', models.CharField(max_length=128)),
                ('decision', models.CharField(max_length=16)),
                ('found_by', models.CharField(blank=True, max_length=16)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('chat', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.chat')),
                ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(fields=['user', 'asked'], name='completion_asked'), models.Index(fields=['user', 'question'], name='completion_question')],
            },
        ),
        migrations.CreateModel(
            name='ChatMetadata',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('pair', models.CharField(max_length=32)),
                ('chat', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='pairs', to='conversations.chat')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('owner', 'pair', 'chat'), name='chat_metadata_pair')],
            },
        ),
        migrations.CreateModel(
            name='ContentView',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('viewer_name', models.CharField(max_length=150)),
                ('owner_id', models.BigIntegerField(null=True)),
                ('chat_id', models.UUIDField(db_index=True, null=True)),
                ('page', models.CharField(max_length=64)),
                ('object_id', models.CharField(max_length=64)),
                ('count', models.PositiveIntegerField(default=1)),
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
            name='EndUser',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='end_user', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('external_id', models.CharField(max_length=200, verbose_name='id in the app')),
                ('app', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='end_users', to='conversations.app')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('app', 'external_id'), name='end_user_once_an_app')],
            },
        ),
        migrations.CreateModel(
            name='Erased',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('chat', 'Chat'), ('message', 'Message'), ('user', 'User')], max_length=8)),
                ('object_id', models.CharField(max_length=64)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), db_index=True)),
            ],
            options={
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('kind', 'object_id'), name='erased_once')],
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
                ('owner_id', models.IntegerField(editable=False)),
                ('id', models.UUIDField(default=chatmemory.database.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('seq', models.PositiveIntegerField()),
                ('role', models.CharField(choices=[('user', 'User'), ('assistant', 'Assistant'), ('tool_call', 'Tool call'), ('tool', 'Tool output')], max_length=16)),
                ('content', models.TextField(blank=True)),
                ('payload', models.JSONField(blank=True, editable=False, null=True)),
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
                ('reply_to', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='replies', to='conversations.message')),
                ('superseded_by', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='supersedes', to='conversations.message')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('reply_to__isnull', False)), fields=['reply_to'], name='message_reply_to'), models.Index(condition=models.Q(('superseded_by__isnull', False)), fields=['superseded_by'], name='message_superseded_by'), models.Index(condition=models.Q(('terms__isnull', True)), fields=['id'], name='message_not_analysed'), models.Index(condition=models.Q(('status', 'failed')), fields=['-id', 'chat'], name='message_failed')],
                'constraints': [models.UniqueConstraint(fields=('chat', 'seq'), name='message_chat_seq'), models.CheckConstraint(condition=models.Q(('seq__gte', 1)), name='message_seq_from_one'), models.CheckConstraint(condition=models.Q(('role__in', ['user', 'assistant', 'tool_call', 'tool'])), name='message_role_known'), models.CheckConstraint(condition=models.Q(('status__in', ['complete', 'incomplete', 'failed', 'cancelled', 'deleted'])), name='message_status_final'), models.CheckConstraint(condition=models.Q(('role', 'assistant'), ('reply_to', None), _connector='OR'), name='message_only_replies_reply'), models.CheckConstraint(condition=models.Q(models.Q(('role', 'user'), _negated=True), ('superseded_by', None), _connector='OR'), name='message_questions_stand')],
            },
        ),
        migrations.CreateModel(
            name='AttachmentLink',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('owner_id', models.IntegerField(editable=False)),
                ('message', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, db_constraint=False, related_name='+', to='conversations.message')),
            ],
            options={
                'db_table': 'conversations_storedattachment_messages',
                'default_permissions': (),
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
                ('sent_at', models.DateTimeField(db_index=True)),
                ('messages', models.ManyToManyField(related_name='stored_attachments', through='conversations.AttachmentLink', to='conversations.message')),
                ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('user', 'sha256'), name='attachment_once_a_user')],
            },
        ),
        migrations.CreateModel(
            name='AttachmentPiece',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('owner_id', models.IntegerField(editable=False)),
                ('number', models.PositiveIntegerField()),
                ('data', models.BinaryField()),
                ('attachment', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='pieces', to='conversations.storedattachment')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('attachment', 'number'), name='attachment_piece_number')],
            },
        ),
        migrations.AddField(
            model_name='attachmentlink',
            name='storedattachment',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, db_constraint=False, related_name='+', to='conversations.storedattachment'),
        ),
        migrations.CreateModel(
            name='WebhookEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('event_id', models.UUIDField()),
                ('chat_id', models.UUIDField()),
                ('end_user', models.CharField(max_length=200, null=True)),
                ('type', models.CharField(choices=[('memory.updated', 'Memory Updated'), ('memory.failed', 'Memory Failed'), ('reply.completed', 'Reply Completed'), ('chat.deleted', 'Chat Deleted')], max_length=32)),
                ('figures', models.JSONField()),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('delivered', 'Delivered'), ('given up', 'Given Up')], db_default='waiting', default='waiting', max_length=16)),
                ('attempts', models.PositiveIntegerField(db_default=0, default=0)),
                ('not_before', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('ended_at', models.DateTimeField(null=True)),
                ('error', models.CharField(blank=True, db_default='', default='', max_length=200, verbose_name='last failure')),
                ('app', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.app')),
            ],
            options={
                'default_permissions': ('view',),
                'indexes': [models.Index(fields=['app', 'state', 'not_before', 'id'], name='webhook_event_due'), models.Index(condition=models.Q(('state', 'waiting')), fields=['chat_id', 'id'], name='webhook_event_next'), models.Index(condition=models.Q(('state', 'given up')), fields=['-id'], name='webhook_event_given_up'), models.Index(condition=models.Q(('ended_at__isnull', False)), fields=['ended_at'], name='webhook_event_ended')],
            },
        ),
        migrations.CreateModel(
            name='Window',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=24)),
                ('key', models.CharField(max_length=64)),
                ('owner_id', models.IntegerField(default=0)),
                ('since', models.DateTimeField(db_index=True)),
                ('count', models.IntegerField(default=0)),
            ],
            options={
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('kind', 'key'), name='window_once')],
            },
        ),
        migrations.CreateModel(
            name='ActiveReply',
            fields=[
                ('owner_id', models.IntegerField(editable=False)),
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
                ('lease_owner', models.CharField(db_column='owner', db_index=True, max_length=100)),
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
        migrations.AlterUniqueTogether(
            name='attachmentlink',
            unique_together={('storedattachment', 'message')},
        ),
    ]
