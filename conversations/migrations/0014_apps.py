"""Apps and end users, scopes of tokens, metadata that is found, retention and webhooks."""

import conversations.models
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('conversations', '0008_to_0013'),
        ('knox', '0009_extend_authtoken_field'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
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
            name='EndUser',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='end_user', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('external_id', models.CharField(max_length=200, verbose_name='id in the app')),
                ('app', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='end_users', to='conversations.app')),
            ],
            options={'constraints': [models.UniqueConstraint(fields=('app', 'external_id'), name='end_user_once_an_app')]},
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
            name='TokenGrant',
            fields=[
                ('token', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='grant', serialize=False, to='knox.authtoken')),
                ('name', models.CharField(blank=True, max_length=100)),
                ('scopes', models.JSONField(default=list)),
            ],
            options={'default_permissions': ()},
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
        migrations.AddField('chat', 'last_message_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), default=django.utils.timezone.now, editable=False)),
        migrations.AddField('chat', 'pinned', models.BooleanField(db_default=False, default=False)),
        migrations.AddField('chat', 'retain_days', models.PositiveIntegerField(blank=True, null=True)),
        migrations.AddField('chat', 'temporary', models.BooleanField(db_default=False, default=False, editable=False)),
        migrations.AddField('chat', 'app', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.app')),
        migrations.AddIndex('chat', models.Index(condition=models.Q(('app__isnull', False)), fields=['app', '-updated_at', '-id'], name='chat_app_last_active')),
        migrations.AddIndex('chat', models.Index(condition=models.Q(('pinned', False), ('retain_days__isnull', True), ('temporary', False)), fields=['app', 'last_message_at'], name='chat_kept_by_app')),
        migrations.AddIndex('chat', models.Index(conversations.models.OwnEnd('last_message_at', 'retain_days'), condition=models.Q(('pinned', False), ('retain_days__isnull', False), ('temporary', False)), name='chat_kept_by_itself')),
        migrations.AddIndex('chat', models.Index(condition=models.Q(('temporary', True)), fields=['last_message_at'], name='chat_temporary')),
    ]
