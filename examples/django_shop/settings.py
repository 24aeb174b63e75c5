"""The project's settings: the database is that of ROWBUS_DATABASE, else the embedded one."""

from __future__ import annotations

from typing import Any

from psycopg.conninfo import conninfo_to_dict

import rowbus

_where: dict[str, Any] = conninfo_to_dict(rowbus.resolve_dsn())
DATABASES = {
    "default": {"ENGINE": "django.db.backends.postgresql", "NAME": _where.pop("dbname"), "OPTIONS": _where}
}
INSTALLED_APPS = ["rowbus.django", "orders"]
ROOT_URLCONF = "orders.urls"
SECRET_KEY = "a shop of examples has no secrets"  # noqa: S105 - as it says
ALLOWED_HOSTS = ["127.0.0.1"]
