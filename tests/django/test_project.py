"""A Django project with Rowbus: endpoints found in its apps, system checks, and the database of DATABASES."""

from __future__ import annotations

import itertools
import os
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.checks import run_checks
from django.core.management import CommandError, call_command, execute_from_command_line
from django.db import connections
from django.test import override_settings
from psycopg.conninfo import conninfo_to_dict

from rowbus.django.databases import dsn_of
from rowbus.django.discovery import endpoints, only_endpoint

pytestmark = pytest.mark.one_version

GOOD = """
import rowbus.django

{name} = rowbus.django.Endpoint("{name}", using="{using}")

@{name}.handler("Project.Message")
def handle(message: object) -> None: ...
"""

Install = Callable[..., list[str]]
numbers = itertools.count()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Give what installs apps, each with this text in its module `endpoints`; returns their names."""
    monkeypatch.syspath_prepend(tmp_path)
    installed = list[override_settings]()

    def install(*texts: str | None) -> list[str]:
        names = [f"project_app_{next(numbers)}" for _text in texts]
        for name, text in zip(names, texts, strict=True):
            (tmp_path / name).mkdir()
            (tmp_path / name / "__init__.py").touch()
            if text is not None:
                (tmp_path / name / "endpoints.py").write_text(text)
        installed.append(override_settings(INSTALLED_APPS=[*settings.INSTALLED_APPS, *names]))
        installed[-1].enable()
        return names

    yield install
    for one in reversed(installed):
        one.disable()


def good(name: str = "sales", using: str = "default") -> str:
    return GOOD.format(name=name, using=using)


def problems() -> list[tuple[str, str]]:
    return [(str(one.id), one.msg) for one in run_checks() if str(one.id).startswith("rowbus.")]


# -------------------------------------------------------------------------------------------------------- discovery


def test_endpoints_are_those_of_the_apps_modules(install: Install) -> None:
    first, _without, second = install(good(), None, good("billing"))

    assert list(endpoints()) == [f"{first}.endpoints:sales", f"{second}.endpoints:billing"]


def test_an_endpoint_that_another_app_imports_is_one_endpoint(install: Install) -> None:
    (first,) = install(good())
    install(good("billing"), f"from {first}.endpoints import sales")

    assert len(endpoints()) == 2


def test_the_only_endpoint_is_run_without_being_named(install: Install) -> None:
    (first,) = install(good())

    assert only_endpoint() == f"{first}.endpoints:sales"


def test_run_says_which_endpoints_there_are(install: Install) -> None:
    first, second = install(good(), good("billing"))

    with pytest.raises(CommandError) as raised:
        call_command("rowbus", "run")
    assert str(raised.value) == (
        f"There are several endpoints; say which to run: {first}.endpoints:sales, {second}.endpoints:billing."
    )


def test_run_says_where_an_endpoint_belongs_when_there_is_none(install: Install) -> None:
    install(None)

    with pytest.raises(
        CommandError, match=r"No app of INSTALLED_APPS has an endpoint in its module endpoints"
    ):
        call_command("rowbus", "run")


def test_a_mistake_on_the_command_line_is_said_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        execute_from_command_line(["manage.py", "rowbus", "--using", "nowhere", "queue", "list"])

    assert ended.value.code == 1
    assert capsys.readouterr().err == "CommandError: There is no 'nowhere' in DATABASES; it has 'default'.\n"


# ------------------------------------------------------------------------------------------------------------ checks


def test_a_project_without_mistakes_passes(install: Install) -> None:
    install(good())

    assert problems() == []


MISTAKES = [
    ("rowbus.E001", "import no_such_module_at_all", "No module named 'no_such_module_at_all'"),
    ("rowbus.E002", 'import rowbus.django\nsales = rowbus.django.Endpoint("Sales")', "has no handlers"),
    ("rowbus.E003", good(using="nowhere"), "There is no 'nowhere' in DATABASES"),
    ("rowbus.E003", good(using="lite"), "has the engine 'django.db.backends.sqlite3'"),
    (
        "rowbus.W001",
        good().replace("rowbus.django.Endpoint", "rowbus.Endpoint").replace(', using="default"', ""),
        "is a rowbus.Endpoint: Django's ORM works outside of the receive transaction",
    ),
]


@pytest.mark.parametrize("mistake, text, said", MISTAKES)
def test_a_check_finds_it(install: Install, mistake: str, text: str, said: str) -> None:
    connections.settings["lite"] = {
        **connections.settings["default"],
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": ":memory:",
        "OPTIONS": {},
    }
    install(text)

    try:
        ((found, message),) = problems()
    finally:
        del connections.settings["lite"]
    assert found == mistake
    assert said in message


# --------------------------------------------------------------------------------------------------------- databases


def test_the_database_is_that_of_django_with_its_options(database: str) -> None:
    where = conninfo_to_dict(database)
    connections.settings["default"].update(
        USER="shop", PASSWORD="it's \\ secret", OPTIONS={"sslmode": "prefer", "assume_role": "owner"}
    )
    try:
        found = conninfo_to_dict(dsn_of())
    finally:
        connections.settings["default"].update(USER="", PASSWORD="")

    assert (found["dbname"], found["user"], found["password"]) == (
        where["dbname"],
        "shop",
        "it's \\ secret",
    )
    assert (found["sslmode"], found["options"]) == ("prefer", "-c role=owner")


# ------------------------------------------------------------------------------------------------------- manage.py


def ran(monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[list[str], dict[str, Any]]:
    """Return what the command would have run, and where."""
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setenv("ROWBUS_DATABASE", "")
    monkeypatch.setattr(runpy, "run_module", lambda *_module, **_name: None)
    call_command("rowbus", "--", *words)
    return sys.argv[1:], conninfo_to_dict(os.environ["ROWBUS_DATABASE"])


@pytest.fixture
def other(database: str) -> Iterator[str]:
    """Give an alias of another database."""
    connections.settings["other"] = {**connections.settings["default"], "NAME": "the_other"}
    yield "other"
    del connections.settings["other"]


def test_an_endpoint_is_run_on_the_database_of_its_own_alias(
    install: Install, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name,) = install(good(using=other))

    words, where = ran(monkeypatch, "run", "--workers", "2")

    assert words == ["run", f"rowbus.django.discovery:{name}.endpoints.sales", "--workers", "2"]
    assert where["dbname"] == "the_other"


def test_a_connection_string_is_no_endpoint(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    (name,) = install(good())

    words, _where = ran(monkeypatch, "run", "--database", "postgresql://a:b@c/d", f"{name}.endpoints:sales")

    served = f"rowbus.django.discovery:{name}.endpoints.sales"
    assert words == ["run", "--database", "postgresql://a:b@c/d", served]


def test_another_alias_is_asked_for_first(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words, where = ran(monkeypatch, "--using", other, "errors", "list")

    assert (words, where["dbname"]) == (["errors", "list"], "the_other")
    with pytest.raises(CommandError, match="--using needs an alias of DATABASES"):
        ran(monkeypatch, "--using")
