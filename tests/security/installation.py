"""A fresh installation of everything, with a role for each that docs/security.md names and exactly its printed grants.

Invariant: no role has a privilege that `rowbus schema grants` does not print. Roles are the server's, so they have
names of this installation's own and are dropped with it.
"""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest.mock import patch

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from typer.core import TyperGroup
from typer.main import get_command

from rowbus.cli.application import app

SHOP = "tests.security.shop"
EVERYTHING = [f"{SHOP}:sales", "--queue", "Billing"]
ROLES: dict[str, list[list[str]]] = {
    "stranger": [],
    "sender": [["--queue", "Sales", "--send"]],
    "receiver": [["--queue", "Sales", "--receive"]],
    "endpoint": [[f"{SHOP}:sales"], ["--queue", "Billing", "--send"]],
    "endpoint with a store": [[f"{SHOP}:keeper"]],
    "viewer": [[*EVERYTHING, "--view"]],
    "operator": [[*EVERYTHING, "--operate"]],
    "log producer": [["--log", "--send"]],
    "log consumer": [["--log", "--receive"]],
    "ticker": [["--log", "--operate"]],
    "Spark source": [["--log", "--receive"], ["--queue", "Sales", "--view"]],
    "Spark sink": [["--spark"], ["--log", "--send"], ["--queue", "Sales", "--send"]],
}
"""Each role with the arguments of `rowbus schema grants` that print its privileges."""

MADE = (
    ["schema", "install", f"{SHOP}:sales"],
    ["schema", "install", f"{SHOP}:keeper"],
    ["queue", "create", "Billing", "--notify-trigger"],
    ["log", "install"],
    ["log", "create", "orders"],
)


@dataclass(frozen=True, slots=True)
class Installation:
    """A database with everything in it, and the names that its roles have on the server."""

    dsn: str
    owner: psycopg.Connection[Any]
    names: dict[str, str]

    def dsn_of(self, role: str) -> str:
        """Return the connection string of a session with a role's privileges."""
        return make_conninfo(self.dsn, options=f"-c role={self.names[role]}")

    def grants(self, role: str) -> str:
        """Return what the command line prints for a role."""
        printed = [run(self.dsn, "schema", "grants", "--role", self.names[role], *a) for a in ROLES[role]]
        return "\n".join(printed)


@cache
def command_line() -> TyperGroup:
    """Build the command line once: that takes longer than most commands."""
    command = get_command(app)
    assert isinstance(command, TyperGroup)
    return command


def run(dsn: str, *arguments: str, with_complaints: bool = False) -> str:
    """Run a command in this process; raises what it raises, and AssertionError for a bad exit code."""
    output, complaints = io.StringIO(), io.StringIO()
    environment = {"ROWBUS_DATABASE": dsn, "COLUMNS": "200"}
    code: object = 0
    with patch.dict(os.environ, environment), redirect_stdout(output), redirect_stderr(complaints):
        try:
            command_line().main([*arguments], prog_name="rowbus")
        except SystemExit as end:
            code = end.code
    assert code in {0, None}, complaints.getvalue() or output.getvalue() or f"exit code {code}"
    return output.getvalue() + (complaints.getvalue() if with_complaints else "")


@contextmanager
def installed(dsn: str) -> Generator[Installation]:
    """Install everything in an empty database, make and grant the roles; drop the roles in the end."""
    for command in MADE:
        run(dsn, *command)
    prefix = f"rowbus_{secrets.token_hex(4)}"
    names = {role: f"{prefix}_{role.replace(' ', '_')}" for role in ROLES}
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute(run(dsn, "schema", "sql", "--spark").encode())
        place = Installation(dsn, owner, names)
        try:
            for role, name in names.items():
                owner.execute(sql.SQL("create role {}").format(sql.Identifier(name)))
                owner.execute(place.grants(role).encode())
            yield place
        finally:
            for name in names.values():
                owner.execute(
                    sql.SQL("drop owned by {0} cascade; drop role {0}").format(sql.Identifier(name))
                )
