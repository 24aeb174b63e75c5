"""Fixtures of the tests with Django: a project without files, on the test's database."""

from __future__ import annotations

from collections.abc import Iterator

import django
import pytest
from django.apps import apps
from django.conf import settings
from django.db import connections
from psycopg.conninfo import conninfo_to_dict

ADMIN = [f"django.contrib.{app}" for app in ("admin", "auth", "contenttypes", "sessions", "messages")]

if not apps.ready:
    settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "none"}},
        INSTALLED_APPS=["rowbus.django", *ADMIN],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        ROOT_URLCONF="tests.django.urls",
        SECRET_KEY="for tests",
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        "django.template.context_processors.request",
                        "django.contrib.auth.context_processors.auth",
                        "django.contrib.messages.context_processors.messages",
                    ]
                },
            }
        ],
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
