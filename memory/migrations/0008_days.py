from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('conversations', '0005_forgetting'),
        ('memory', '0007_wanting'),
    ]

    operations = [
        migrations.CreateModel(
            name='FoldDay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('kind', models.CharField(choices=[('fold', 'Fold'), ('rebuild', 'Rebuild'), ('restore', 'Restore'), ('manual', 'Manual'), ('retract', 'Retract')], max_length=16)),
                ('policy', models.CharField(max_length=32)),
                ('folds', models.PositiveBigIntegerField(default=0)),
                ('turns', models.PositiveBigIntegerField(default=0)),
                ('tokens_before', models.PositiveBigIntegerField(default=0)),
                ('tokens_after', models.PositiveBigIntegerField(default=0)),
                ('input_tokens', models.PositiveBigIntegerField(default=0)),
                ('output_tokens', models.PositiveBigIntegerField(default=0)),
                ('cost_usd', models.DecimalField(decimal_places=9, default=0, max_digits=20)),
                ('duration_ms', models.PositiveBigIntegerField(default=0)),
                ('share_sum', models.FloatField(default=0)),
                ('degraded', models.PositiveBigIntegerField(default=0)),
                ('failures', models.PositiveBigIntegerField(default=0)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='UsageDay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('model_variant', models.CharField(max_length=64)),
                ('replies', models.PositiveBigIntegerField(default=0)),
                ('failed', models.PositiveBigIntegerField(default=0)),
                ('billed', models.PositiveBigIntegerField(default=0)),
                ('input_tokens', models.PositiveBigIntegerField(default=0)),
                ('cached_tokens', models.PositiveBigIntegerField(default=0)),
                ('output_tokens', models.PositiveBigIntegerField(default=0)),
                ('priced', models.PositiveBigIntegerField(default=0)),
                ('cost_usd', models.DecimalField(decimal_places=9, default=0, max_digits=20)),
                ('compared', models.PositiveBigIntegerField(default=0)),
                ('history_tokens', models.PositiveBigIntegerField(default=0)),
                ('memory_tokens', models.PositiveBigIntegerField(default=0)),
                ('saved_tokens', models.PositiveBigIntegerField(default=0)),
                ('saved_usd', models.DecimalField(decimal_places=9, default=0, max_digits=20)),
            ],
            options={
                'permissions': [('view_cost', 'Can see what chats cost')],
                'default_permissions': (),
            },
        ),
        migrations.AddField(
            model_name='contextrecord',
            name='history_tokens',
            field=models.PositiveBigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='contextrecord',
            name='is_counted',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='conversationbrief',
            name='folded_tokens',
            field=models.PositiveBigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='summaryrevision',
            name='folded_tokens',
            field=models.PositiveBigIntegerField(blank=True, null=True),
        ),
        migrations.AddIndex(
            model_name='contextrecord',
            index=models.Index(condition=models.Q(('is_counted', False)), fields=['reply'], name='context_not_counted'),
        ),
        migrations.AddConstraint(
            model_name='foldday',
            constraint=models.UniqueConstraint(fields=('day', 'kind', 'policy'), name='fold_day_kind_policy'),
        ),
        migrations.AddConstraint(
            model_name='usageday',
            constraint=models.UniqueConstraint(fields=('day', 'model_variant'), name='usage_day_variant'),
        ),
    ]
