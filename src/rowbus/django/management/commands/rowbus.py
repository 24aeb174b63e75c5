"""`manage.py rowbus …`: Rowbus's command line in the project, on its database.

Invariant: what follows `rowbus` means what it means to the command `rowbus`.
"""

from __future__ import annotations

import os
import re
import runpy
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from rowbus import ConfigurationError
from rowbus.django.databases import dsn_of
from rowbus.django.discovery import endpoints, only_endpoint, served

VARIABLE = "ROWBUS_DATABASE"
_TARGET = re.compile(r"[\w.]+:[\w.]+")


class Command(BaseCommand):
    """Run a command of Rowbus's; the database is that of DATABASES."""

    help = (
        "Rowbus's command line on this project's database: run [MODULE:ENDPOINT], ticker, errors list, queue list, … "
        "`manage.py rowbus --help` shows all; --using ALIAS, as the first argument, chooses another of DATABASES "
        "than the endpoint's, or the default."
    )
    requires_system_checks = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """Take everything that follows as the command's, options too."""
        super().run_from_argv([*argv[:2], "--", *argv[2:]])

    def add_arguments(self, parser: CommandParser) -> None:
        """Take words, for `call_command`."""
        parser.add_argument("words", nargs="*")

    def handle(self, *_args: Any, **options: Any) -> None:  # noqa: ANN401 - Django's signature
        """Run the command as `python -m rowbus` does; ends the process with its exit code."""
        alias, words = _alias(list(options["words"]))
        try:
            if words[:1] == ["run"] and not {"--help", "-h"} & set(words):
                target, words = _target(words)
                alias = alias or getattr(endpoints().get(target), "using", None)
            os.environ[VARIABLE] = dsn_of(alias or "default")
        except ConfigurationError as error:
            raise CommandError(str(error)) from error
        sys.argv = ["rowbus", *words]
        runpy.run_module("rowbus", run_name="__main__")


def _alias(words: list[str]) -> tuple[str | None, list[str]]:
    """Return the alias that was asked for, if one was, and the words without it."""
    if words[:1] != ["--using"]:
        return None, words
    if len(words) == 1:
        raise CommandError("--using needs an alias of DATABASES.")
    return words[1], words[2:]


def _target(words: list[str]) -> tuple[str, list[str]]:
    """Return what is to be run, the only endpoint if none is named, and the words that run it with Django."""
    named = [place for place, word in enumerate(words) if _TARGET.fullmatch(word)]
    place = named[0] if named else 1
    target = words[place] if named else only_endpoint()
    return target, [*words[:place], served(target), *words[place + bool(named) :]]
