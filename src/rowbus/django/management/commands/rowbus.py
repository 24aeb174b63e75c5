"""`manage.py rowbus …`: Rowbus's command line in the project, on its database.

Invariant: what follows `rowbus` means what it means to the command `rowbus`.
"""

from __future__ import annotations

import os
import runpy
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from rowbus import ConfigurationError
from rowbus.django.databases import dsn_of
from rowbus.django.discovery import only_endpoint
from rowbus.django.served import served

VARIABLE = "ROWBUS_DATABASE"


class Command(BaseCommand):
    """Run a command of Rowbus's; the database is that of DATABASES."""

    help = (
        "Rowbus's command line on this project's database: run [MODULE:ENDPOINT], ticker, errors list, queue list, … "
        "`manage.py rowbus --help` shows all; --using ALIAS, as the first argument, chooses another of DATABASES."
    )
    requires_system_checks = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """Take everything that follows as the command's, options too."""
        self.handle(words=argv[2:])

    def add_arguments(self, parser: CommandParser) -> None:
        """Take words, for `call_command`."""
        parser.add_argument("words", nargs="*")

    def handle(self, *_args: Any, **options: Any) -> None:  # noqa: ANN401 - Django's signature
        """Run the command as `python -m rowbus` does; ends the process with its exit code."""
        words = list(options["words"])
        alias = "default"
        if words[:1] == ["--using"]:
            alias, words = words[1], words[2:]
        try:
            os.environ[VARIABLE] = dsn_of(alias)
            sys.argv = ["rowbus", *_with_endpoint(words)]
        except ConfigurationError as error:
            raise CommandError(str(error)) from error
        runpy.run_module("rowbus", run_name="__main__")


def _with_endpoint(words: list[str]) -> list[str]:
    """Have `run` without a target run the only endpoint, and its workers begin with Django."""
    if words[:1] != ["run"] or "--help" in words or "-h" in words:
        return words
    targets = [word for word in words[1:] if ":" in word and not word.startswith("-")]
    if not targets:
        return ["run", served(only_endpoint()), *words[1:]]
    return [served(word) if word == targets[0] else word for word in words]
