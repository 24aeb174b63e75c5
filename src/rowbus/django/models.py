"""The subjects of the admin's permissions: there is no table, and no row is ever saved.

Invariant: Django creates, changes and drops nothing for this model.
"""

from __future__ import annotations

from django.db import models


class FailedMessage(models.Model):
    """A message in an error queue of the project's endpoints; `rowbus.django.admin` reads it from there."""

    queue: models.TextField[str, str] = models.TextField(primary_key=True)

    class Meta:
        """Permissions, of which `migrate` makes rows: to look, and to retry."""

        app_label = "rowbus"
        managed = False
        default_permissions = ("view",)
        permissions = (("retry_failedmessage", "Can retry failed messages"),)
        verbose_name = "failed message"
        verbose_name_plural = "failed messages"

    def __str__(self) -> str:
        """Return the error queue, as the admin's history names it."""
        return str(self.queue)
