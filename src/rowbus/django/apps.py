"""The app `rowbus.django` for INSTALLED_APPS: the command `manage.py rowbus`, checks, a page of the admin."""

from __future__ import annotations

from django.apps import AppConfig
from django.core.checks import register

from rowbus.django.checks import check_endpoints


class RowbusConfig(AppConfig):
    """Rowbus, as an app; its one model has no table."""

    name = "rowbus.django"
    label = "rowbus"
    verbose_name = "Rowbus"

    def ready(self) -> None:
        """Register the check."""
        register(check_endpoints)
