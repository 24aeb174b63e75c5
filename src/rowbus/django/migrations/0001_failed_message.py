"""The model that the admin's permissions are about. Creates no table."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """Have Django know the model, so that `makemigrations` does not write it into this package."""

    initial = True
    operations = (
        migrations.CreateModel(
            name="FailedMessage",
            fields=[("queue", models.TextField(primary_key=True, serialize=False))],
            options={
                "verbose_name": "failed message",
                "verbose_name_plural": "failed messages",
                "managed": False,
                "default_permissions": ("view",),
                "permissions": (("retry_failedmessage", "Can retry failed messages"),),
            },
        ),
    )
