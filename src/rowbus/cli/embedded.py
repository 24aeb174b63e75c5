"""`rowbus embedded`: look at the embedded server, psql, stop it, begin anew; and the consent to serve on it.

A service that runs without a terminal has lost its ROWBUS_DATABASE more often than it wants a server of its own, whose
data no other machine sees and no backup has.

Invariants: only `psql` starts it; only `reset` takes data away, and it asks first; where a database is named, nothing
is said and nothing asked.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rowbus.cli.options import Json, Verbose
from rowbus.cli.output import complain, say, show_json
from rowbus.database.location import DATABASE_VARIABLE, named_dsn
from rowbus.errors import ConfigurationError, EmbeddedServerError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from rowbus.database.embedded import Cluster, ServerState

app = typer.Typer(
    help="Look after the embedded server, which is for development.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
NO_COMMAND = 127  # what a shell answers for a program that is missing


@app.command()
def status(*, as_json: Json = False, _verbose: Verbose = False) -> None:
    """Say whether the embedded server runs, where its data is, and which processes use it.

    Does not start it. Exit code 1: it does not run.
    """
    from rowbus.database.embedded import state_of

    cluster = _cluster()
    state = state_of(cluster)
    if as_json:
        show_json({**state._asdict(), "connection": cluster.dsn})
    else:
        _tell(state, cluster.dsn)
    if state.process is None:
        raise typer.Exit(1)


@app.command(context_settings={"ignore_unknown_options": True})
def psql(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARG]...", help=r"Arguments of psql, such as -c '\dt'.")
    ] = None,
) -> None:
    """Open psql on the embedded server, which is started if it does not run.

    The exit code is psql's.
    """
    from rowbus.database.embedded import join

    cluster = _cluster()
    program = shutil.which("psql", path=cluster.binaries) or shutil.which("psql")
    dsn = join(cluster)
    if program is None:
        raise EmbeddedServerError(
            f"The embedded server came without psql, and there is none on the PATH. Connect another client: {dsn}",
            log="",
        )
    with _interrupts_left_to_it():
        done = subprocess.run([program, f"--dbname={dsn}", *(arguments or ())], check=False)
    raise typer.Exit(done.returncode if done.returncode >= 0 else NO_COMMAND)


@app.command()
def stop(*, _verbose: Verbose = False) -> None:
    """Stop the embedded server, although programs use it; the data stays.

    It stops by itself when the last program that uses it has ended, and starts when one needs it.
    """
    from rowbus.database.embedded import state_of, stop_for_all

    cluster = _cluster()
    users = state_of(cluster).users
    if not stop_for_all(cluster):
        say(f"No embedded server runs in {cluster.directory}.")
        return
    say(f"Stopped the embedded server in {cluster.directory}.")
    if users:
        say(
            f"It was used by {_processes(users)}: end them, or start it again with any command that needs it."
        )


@app.command()
def reset(
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    _verbose: Verbose = False,
) -> None:
    """Delete all databases of the embedded server for good, and stop it.

    The next program that needs it begins with an empty one.
    """
    from rowbus.database.embedded import remove_data, state_of

    cluster = _cluster()
    state = state_of(cluster)
    if state.version and not yes:
        _confirm(state)
    if remove_data(cluster):
        say(f"Removed the embedded server's data in {cluster.data}.")
    else:
        say(f"The embedded server has no data in {cluster.directory}.")


def _cluster() -> Cluster:
    from rowbus.database.embedded import Cluster, default_directory, find_binaries

    binaries = find_binaries()
    return Cluster(binaries, default_directory(binaries))


def _confirm(state: ServerState) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter("there is no terminal to ask on; add --yes.", param_hint="--yes")
    used = f", used by {_processes(state.users)}" if state.users else ""
    typer.confirm(
        f"Delete all databases of the embedded server in {state.directory} ({_megabytes(state.size)}{used})?",
        abort=True,
        err=True,
    )


def _tell(state: ServerState, dsn: str) -> None:
    if state.version is None:
        say(
            f"There is no embedded server in {state.directory} yet; the first program that needs it makes one."
        )
        return
    does = "does not run" if state.process is None else f"runs as process {state.process}"
    say(f"The embedded server (PostgreSQL {state.version}) {does}.")
    say(f"Its data: {state.directory / 'data'}, {_megabytes(state.size)}")
    say(f"Its connection string: {dsn}")
    if state.users:
        say(f"It is used by {_processes(state.users)}.")


def _processes(users: Sequence[int]) -> str:
    return f"process{'' if len(users) == 1 else 'es'} {', '.join(map(str, users))}"


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:.0f} MB"


@contextmanager
def _interrupts_left_to_it() -> Generator[None]:
    """Leave Ctrl-C to the program that runs, which cancels a statement with it."""
    before = signal.signal(
        signal.SIGINT, lambda _signal, _frame: None
    )  # a program that is started gets the default
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
