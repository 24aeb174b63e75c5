"""The operating system user a server runs as.

PostgreSQL refuses to run as root. Root therefore starts it as `postgres` if there is such a user (the only one whose
processes have a reason to see a database), else as `nobody`; any other user starts it as itself.

Invariant: no user is ever created, and a data directory keeps the owner it was made with.
"""

from __future__ import annotations

import os
import pwd
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from rowbus.errors import EmbeddedServerError

if TYPE_CHECKING:
    from pathlib import Path

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
