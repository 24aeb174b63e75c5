"""A PostgreSQL server for machines that have none: from a wheel, shared by all processes of one OS user.

`embedded_dsn` is what an endpoint and the command line use when they were given no database. The first process that
asks starts the server, later ones join it, and the last one to leave stops it, also when it is killed; the data stays.
docs/decisions/0001-embedded-server.md says why this wheel, who can connect, and where the files are.

Invariant: durability is PostgreSQL's default (fsync and synchronous_commit are on) unless a caller of `Cluster`
turns it off by name. Linux only: `/proc` tells which server runs, `flock` who uses it.
"""

from __future__ import annotations

from rowbus.database.embedded.binaries import find_binaries
from rowbus.database.embedded.cluster import Cluster
from rowbus.database.embedded.shared_server import default_directory, embedded_dsn, join, leave
from rowbus.database.embedded.upkeep import ServerState, remove_data, state_of, stop_for_all

__all__ = [
    "Cluster",
    "ServerState",
    "default_directory",
    "embedded_dsn",
    "find_binaries",
    "join",
    "leave",
    "remove_data",
    "state_of",
    "stop_for_all",
]
