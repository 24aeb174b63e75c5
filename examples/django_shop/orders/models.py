"""The shop's tables."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class Order(models.Model):
    """An order, and how far it is."""

    id: models.CharField[str, str] = models.CharField(max_length=40, primary_key=True)
    lines = models.JSONField()
    state: models.CharField[str, str] = models.CharField(max_length=40, default="received")
    objects: ClassVar[models.Manager[Order]]

    def __str__(self) -> str:
        """Return what the admin calls it."""
        return f"order {self.pk}"


class Stock(models.Model):
    """Number of this item."""

    item: models.CharField[str, str] = models.CharField(max_length=40, primary_key=True)
    left: models.IntegerField[int, int] = models.IntegerField()
    objects: ClassVar[models.Manager[Stock]]

    def __str__(self) -> str:
        """Return what the admin calls it."""
        return f"{self.left} of {self.item}"
