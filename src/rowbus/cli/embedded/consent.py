"""The consent of a user to serve on the embedded server: a terminal, an option, or a variable.

A service that runs without a terminal has lost its ROWBUS_DATABASE more often than it wants a server of its own, whose
data no other machine sees and no backup has.

Invariant: where a database is named, nothing is said and nothing asked.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Final

import typer

from rowbus.cli.output import complain
from rowbus.database.location import DATABASE_VARIABLE, named_dsn
from rowbus.errors import ConfigurationError

CONSENT_VARIABLE: Final = "ROWBUS_EMBEDDED"

Embedded = Annotated[
    bool,
    typer.Option(
        "--embedded",
        help="Where no database is named, use the embedded server also when the output is no terminal "
        f"(or {CONSENT_VARIABLE}=1).",
    ),
]


def require_consent(database: str | None, *, given: bool) -> None:
    """Say that a service is going to run on the embedded server, and that it is for development.

    Raises ConfigurationError when the standard output is no terminal and neither the option was `given` nor
    ROWBUS_EMBEDDED is 1. Does nothing when `database` or ROWBUS_DATABASE names a database.
    """
    if named_dsn(database):
        return
    if not (given or os.environ.get(CONSENT_VARIABLE) == "1" or sys.stdout.isatty()):
        raise ConfigurationError(
            "No database is named, and the embedded server is for development: this output is no terminal, so it looks "
            f"like a service. Name its database with --database or {DATABASE_VARIABLE}; or, if the embedded server is "
            f"meant, give --embedded or set {CONSENT_VARIABLE}=1."
        )
    complain(
        "no database is named, so this runs on the embedded server, which is for development. For anything else name "
        f"one with --database or {DATABASE_VARIABLE}."
    )
