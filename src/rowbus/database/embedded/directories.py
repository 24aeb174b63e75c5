"""The folders of an embedded server, who may enter them, and the user of the operating system that it runs as.

DIRECTORY               ours: 0700, or 0711 when the server runs as another user, who has to pass through it
    DIRECTORY/data          the server's user: 0700, PostgreSQL's own rule
    DIRECTORY/socket        the server's user: 0700, so that only this user and root can connect
    DIRECTORY/*.lock        ours: who uses, changes and watches the server
    DIRECTORY/server.log    ours

PostgreSQL refuses to run as root. Root therefore starts it as `postgres` if there is such a user (the only one whose
processes have a reason to see a database), else as `nobody`; any other user starts it as itself.

Invariants: the server trusts every user who can open its socket, so the socket's folder belongs to the server's user
and is closed to all others (root excepted); any other folder is refused, never mended; no user is ever created, and a
data directory keeps the owner it was made with.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from rowbus.errors import EmbeddedServerError

UNPRIVILEGED = ("postgres", "nobody")


class Switch(TypedDict, total=False):
    """The arguments of `subprocess.run` that make a child another user."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """An operating system user."""

    name: str
    uid: int
    gid: int

    @property
    def is_other(self) -> bool:
        """Say whether it is another user than this process's."""
        return self.uid != os.geteuid()

    @property
    def switch(self) -> Switch:
        """Give the arguments that make a child process run as this user; none if it already would."""
        return Switch(user=self.uid, group=self.gid, extra_groups=[]) if self.is_other else Switch()

    def own(self, path: Path) -> None:
        """Give a file that we have just made to this user."""
        if self.is_other:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def server_account(data: Path | None = None) -> Account:
    """Choose the user a server runs as: as root the owner of its data, if there is some, or `UNPRIVILEGED`.

    Raises `EmbeddedServerError` when this is root and the machine has no other user to offer.
    """
    if os.geteuid() != 0:
        return _account(os.geteuid())
    if data is not None and data.exists() and data.stat().st_uid != 0:
        return _account(data.stat().st_uid)
    for name in UNPRIVILEGED:
        with suppress(KeyError):
            return _account(pwd.getpwnam(name).pw_uid)
    raise EmbeddedServerError(
        "PostgreSQL does not run as root, and this machine has neither a user `postgres` nor `nobody` to run it: "
        "run this program as an ordinary user, or give it a database with ROWBUS_DATABASE.",
        log="",
    )


def _account(uid: int) -> Account:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:  # a container started with a bare number as its user; initdb will say that it minds
        return Account(str(uid), uid, os.getegid())
    return Account(entry.pw_name, uid, entry.pw_gid)


PORT = "5432"
_LONGEST_SOCKET_PATH = 107  # bytes in `sockaddr_un.sun_path`, without the closing zero
_PRIVATE = 0o700
_PASSABLE = 0o711
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


@contextmanager
def placed() -> Generator[None]:
    """Raise `EmbeddedServerError` for a folder or file of the server that cannot be made, read or written."""
    try:
        yield
    except OSError as error:
        raise EmbeddedServerError(f"No place for the server: {error}. {_ELSEWHERE}", log="") from error


def make_directory(directory: Path, account: Account) -> None:
    """Make the server's folder, and those above it that are missing; leave existing ones as they are.

    Raises `EmbeddedServerError` when it belongs to another user, or others could write into it, and OSError.
    """
    for folder in reversed([directory, *directory.parents]):
        if not folder.exists():
            _make(folder, _PASSABLE if account.is_other else _PRIVATE)
    found = directory.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise EmbeddedServerError(f"{directory} is a file, not a folder. {_ELSEWHERE}", log="")
    if found.st_uid != os.geteuid() or found.st_mode & _OTHERS_MAY_WRITE:
        raise EmbeddedServerError(
            f"{directory} belongs to another user, or others may write into it. {_ELSEWHERE}", log=""
        )


def make_private(folder: Path, account: Account) -> None:
    """Make a folder that only the server's user (and root) can enter, or check that this one is so."""
    with suppress(FileExistsError):
        folder.mkdir(_PRIVATE)
        account.own(folder)
    found = folder.lstat()
    if (found.st_uid, found.st_mode) != (account.uid, stat.S_IFDIR | _PRIVATE):
        raise EmbeddedServerError(
            f"{folder} is not a folder of the user {account.name} with mode 0700, so others could connect to the "
            "server. Remove it and try again.",
            log="",
        )


def socket_directory(directory: Path) -> Path:
    """Name the folder of the server's socket: in its own folder, or below /tmp where that path does not do.

    It may be too long, or contain a comma, at which libpq splits a list of hosts.
    """
    near = directory / "socket"
    path = os.fsencode(near / f".s.PGSQL.{PORT}")
    if len(path) <= _LONGEST_SOCKET_PATH and b"," not in path:
        return near
    name = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
    return Path("/tmp", f"rowbus-{name}")  # noqa: S108 - make_private refuses one that another user has made


def _make(folder: Path, mode: int) -> None:
    with suppress(FileExistsError):
        folder.mkdir(mode)
        folder.chmod(mode)  # the umask may have taken from it what the server's user needs


_ELSEWHERE = "Choose another one with ROWBUS_EMBEDDED_DIRECTORY."
