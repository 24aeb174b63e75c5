"""One PostgreSQL server on one data directory: make it, start it, stop it, kill it.

Invariant: what a server has confirmed survives the death of its processes. The data directory appears complete
or not at all (initdb works beside it), `postmaster.pid` is never removed by us, and durability stays at PostgreSQL's
defaults unless the settings say otherwise. Locking between processes is the business of `shared_server`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from rowbus.database.embedded import postmaster
from rowbus.database.embedded.binaries import major_version
from rowbus.database.embedded.directories import (
    PORT,
    Account,
    make_directory,
    make_private,
    placed,
    server_account,
    socket_directory,
)
from rowbus.errors import EmbeddedServerError

StopMode = Literal["smart", "fast", "immediate"]

RECOVERY_SECONDS = 300.0
"""The time that a start may take; after a crash the log since the last checkpoint is replayed first."""

ORPHAN_SECONDS = 10.0
"""The time that a start waits for the sessions of a server that was killed: they end when they have time to notice."""

STOP_SECONDS = 60.0
"""The time that a stop may take before the server is killed; it writes a checkpoint."""

_SIGNALS: Mapping[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}
# Nothing of ours: PGPORT, PGDATA or TZ would change the server.
_ENVIRONMENT = {"LC_ALL": "C", "PATH": os.defpath}
_LOG_TAIL_BYTES = 8_000
_BUILTIN_PROVIDER_SINCE = 17


class Cluster:
    """A PostgreSQL server with its data directory; not started by making the object.

    `settings` are PostgreSQL's, and beat those in its configuration files. Of two objects on the same directory one
    sees what the other does; `shared_server.join` is for when two may start it at the same time.
    """

    def __init__(self, binaries: Path, directory: Path, *, settings: Mapping[str, str] | None = None) -> None:
        self.binaries = binaries
        self.directory = directory.expanduser().resolve()
        self.data = self.directory / "data"
        self.settings = dict(settings or {})
        self._socket = socket_directory(self.directory)
        self._log = self.directory / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def dsn(self) -> str:
        """The address of its database `postgres`, as superuser; the same after every start."""
        return f"postgresql://postgres@/postgres?host={quote(str(self._socket))}&port={PORT}"

    @property
    def is_running(self) -> bool:
        """Whether there is a server on this directory, started by this object or by anyone."""
        return self._pid() is not None

    @placed()
    def start(self) -> None:
        """Start the server, on a new data directory if there is none, and wait until it takes connections.

        Does nothing when it is running. Raises `EmbeddedServerError` when it cannot start; `log` says why.
        """
        if self.is_running:
            return
        account = server_account(self.data)
        make_directory(self.directory, account)
        make_private(self._socket, account)
        if not self.data.exists():
            self._initialise(account)
        self._check_version()
        postmaster.free_stale_pid(self.data)
        self._free_socket()
        self._rotate_log()
        if not postmaster.wait_until(lambda: self._comes_up(account), seconds=ORPHAN_SECONDS):
            raise self._failure("The server did not start", self.log_tail())

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server and wait until it has ended; do nothing when it is not running.

        "smart" waits for clients to leave, "fast" ends their sessions, "immediate" leaves recovery to the next start.
        One that has not stopped after `STOP_SECONDS` is killed, which no confirmed transaction notices.
        """
        pid = self._pid()
        if pid is not None:
            postmaster.send(pid, _SIGNALS[mode])
            if not postmaster.wait_until(lambda: not self.is_running, seconds=STOP_SECONDS):
                self.kill()

    def kill(self) -> None:
        """End all of the server's processes with SIGKILL, as a power cut would; do nothing when it is not running."""
        pid = self._pid()
        if pid is not None:
            postmaster.kill_with_children(pid)
        if self._process is not None:
            self._process.wait()

    def log_tail(self) -> str:
        """Give the end of the server's log."""
        try:
            return self._log.read_bytes()[-_LOG_TAIL_BYTES:].decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def _pid(self) -> int | None:
        if self._process is not None and self._process.poll() is None:
            return self._process.pid
        return postmaster.running(self.data)

    def _initialise(self, account: Account) -> None:
        new = self.directory / "data.new"
        shutil.rmtree(new, ignore_errors=True)  # of a process that was killed here
        make_private(new, account)
        done = subprocess.run(
            [self.binaries / "initdb", "-D", new, *self._initialisation()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            cwd="/",
            env=_ENVIRONMENT,
            start_new_session=True,
            **account.switch,
        )
        if done.returncode != 0:
            raise self._failure("initdb failed", done.stdout.decode("utf-8", "replace"))
        new.rename(self.data)

    def _initialisation(self) -> list[str]:
        options = ["--username=postgres", "--auth-local=trust", "--auth-host=reject"]
        options += ["--encoding=UTF8", "--locale=C"]
        if major_version(self.binaries) >= _BUILTIN_PROVIDER_SINCE:
            options += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        if self.settings.get("fsync") == "off":
            options += ["--no-sync"]
        return options

    def _check_version(self) -> None:
        version = self.data / "PG_VERSION"
        found = version.read_text("ascii").strip() if version.exists() else None
        installed = major_version(self.binaries)
        if found != str(installed):
            raise EmbeddedServerError(
                f"{self.data} was made by PostgreSQL {found or '(none: PG_VERSION is missing)'}, and the server "
                f"installed here is {installed}. Choose another directory with ROWBUS_EMBEDDED_DIRECTORY; to keep "
                "the data, dump it with the old version.",
                log="",
            )

    def _free_socket(self) -> None:
        # Its lock file names a pid, which may by now be anyone's; the data directory's is the one that guards.
        for name in (f".s.PGSQL.{PORT}", f".s.PGSQL.{PORT}.lock"):
            (self._socket / name).unlink(missing_ok=True)

    def _comes_up(self, account: Account) -> bool:
        """Start the server's process and wait for it; False if sessions of an older one are still at work."""
        self._process = self._launch(account)
        if self._await_ready(self._process):
            return True
        if "shared memory block" not in self.log_tail():
            raise self._failure("The server did not start", self.log_tail())
        return False

    def _launch(self, account: Account) -> subprocess.Popen[bytes]:
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            return subprocess.Popen(
                [self.binaries / "postgres", "-D", self.data, *self._options()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=_ENVIRONMENT,
                start_new_session=True,  # Ctrl-C in the terminal is for the programs, not for their server
                **account.switch,
            )
        finally:
            os.close(log)

    def _options(self) -> list[str]:
        socket = str(self._socket).replace('"', '""')
        settings = {
            "listen_addresses": "",
            "port": PORT,
            "unix_socket_directories": f'"{socket}"',
            "unix_socket_permissions": "0700",
            "timezone": "UTC",
            "log_timezone": "UTC",
            **self.settings,
        }
        return [f"--{name}={value}" for name, value in settings.items()]

    def _await_ready(self, process: subprocess.Popen[bytes]) -> bool:
        def is_decided() -> bool:
            return process.poll() is not None or postmaster.is_ready(self.data, process.pid)

        if not postmaster.wait_until(is_decided, seconds=RECOVERY_SECONDS):
            raise self._failure(f"The server was not ready after {RECOVERY_SECONDS:.0f} s", self.log_tail())
        return process.poll() is None

    def _rotate_log(self) -> None:
        if self._log.exists():
            self._log.replace(self._log.with_suffix(".log.1"))

    def _failure(self, what: str, log: str) -> EmbeddedServerError:
        lines = log.strip().splitlines()
        reasons = [line for line in lines if "FATAL:" in line or "error:" in line] or ["see its log"]
        account = server_account(self.data)
        who = f" It runs as the user {account.name}, who must be able to enter {self.directory}."
        return EmbeddedServerError(f"{what}: {reasons[-1]}.{who if account.is_other else ''}", log=log)
