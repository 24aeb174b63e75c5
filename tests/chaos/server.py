"""PostgreSQL servers for a run: a primary, and if asked a standby that confirms each commit.

Invariant: durability against what is done to them here. Processes are killed, no power is cut, so fsync is off; what a
server has confirmed is in the kernel's memory, which outlives it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psycopg

from rowbus.database.embedded import find_binaries
from rowbus.database.embedded.directories import server_account

PATIENCE = 60.0
PAUSE = 0.05
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "100",
    "max_wal_size": "256MB",
    "wal_level": "replica",
    "hot_standby": "on",
    "log_min_messages": "fatal",
    "client_connection_check_interval": "1s",  # as docs/how-to/what-happens-in-a-crash.md advises
}


def free_port() -> int:
    """Give a port that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def open_folder(folder: Path) -> Path:
    """Make a folder that the server's user may enter."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in (folder, *folder.parents[:1]):
        with suppress(PermissionError):
            each.chmod(0o755)
    return folder


class Server:
    """One server on 127.0.0.1, as superuser `postgres`, whom it trusts."""

    def __init__(self, folder: Path, *, settings: Mapping[str, str] | None = None) -> None:
        self.folder = open_folder(folder)
        self.data = folder / "data"
        self.port = free_port()
        self.settings = SETTINGS | dict(settings or {})
        self.process: subprocess.Popen[bytes] | None = None
        self._account = server_account()

    def dsn(self, database: str = "chaos") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def run(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs as the server's user."""
        account = self._account
        account.own(self.folder)
        subprocess.run(
            [find_binaries() / program, *arguments],
            check=True,
            capture_output=True,
            cwd="/",
            **account.switch,
        )

    def own(self, path: Path) -> None:
        """Give a file or folder to the server's user."""
        self._account.own(path)

    def initialise(self) -> None:
        self.run(
            "initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"
        )
        with (self.data / "pg_hba.conf").open("a") as file:
            file.write("host all all all trust\nhost replication all all trust\n")

    def copy(self, primary: Server, name: str) -> None:
        """Become a standby of a primary, under a name by which the primary may wait for it."""
        self.run(
            "pg_basebackup", "-D", str(self.data), "-d", primary.dsn("postgres"), "-X", "stream", "-c", "fast"
        )
        (self.data / "standby.signal").touch()
        shutil.chown(self.data / "standby.signal", self._account.uid, self._account.gid)
        self.settings["primary_conninfo"] = (
            f"host=127.0.0.1 port={primary.port} user=postgres application_name={name}"
        )

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        options = [f"-c{name}={value}" for name, value in self.settings.items()]
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(find_binaries() / "postgres", "-D", self.data, "-p", str(self.port)),
                    *("-c", "listen_addresses=*", "-k", "", *options),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                **self._account.switch,
            )
        self.await_ready()

    def await_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                psycopg.connect(self.dsn("postgres"), connect_timeout=5).close()
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self.process is None or self.process.poll() is not None:
                    raise
                time.sleep(PAUSE)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """Stop it at once, as after a crash; SIGINT ends its sessions and writes a checkpoint."""
        if self.process is not None and self.process.poll() is None:
            os.kill(self.process.pid, how)
            self.process.wait(PATIENCE)

    def promote(self) -> None:
        """Have a standby become the primary, and wait until it takes writes."""
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            connection.execute("select pg_promote(true, 60)")
