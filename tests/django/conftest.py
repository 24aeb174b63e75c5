"""Fixtures of the tests with Django: a project without files, on the test's database."""

from __future__ import annotations

from collections.abc import Iterator

import django
import pytest
from django.apps import apps
from django.conf import settings
from django.db import connections
from psycopg.conninfo import conninfo_to_dict

if not apps.ready:
    settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "none"}},
        INSTALLED_APPS=["rowbus.django"],
        USE_TZ=True,
    )
    django.setup()


@pytest.fixture(autouse=True)
def project(database: str) -> Iterator[None]:
    """Have DATABASES say where the test's database is."""
    where = conninfo_to_dict(database)
    connections.settings["default"].update(NAME=where.pop("dbname"), OPTIONS=where)
    yield
    connections.close_all()
    for connection in connections.all(initialized_only=True):
        del connections[connection.alias]
