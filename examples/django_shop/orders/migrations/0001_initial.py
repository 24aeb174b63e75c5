"""The shop's tables, and its queues."""

from __future__ import annotations

from django.db import migrations, models

from rowbus.django.operations import CreateEndpoint


class Migration(migrations.Migration):
    """Create them."""

    initial = True
    operations = [  # noqa: RUF012 - as Django writes it
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("lines", models.JSONField()),
                ("state", models.CharField(default="received", max_length=40)),
            ],
        ),
        migrations.CreateModel(
            name="Stock",
            fields=[
                ("item", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("left", models.IntegerField()),
            ],
        ),
        CreateEndpoint("Sales"),
    ]
