"""Where a lake lies: a folder of this machine, or an object store, by its address.

PyArrow reaches a store with the same settings from the environment as delta-rs.

Invariant: an address has no credentials, so it may be in logs and in state.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from pyarrow import fs

_STORES: Final = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or a role of the machine",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "abfss": "AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET, or AZURE_STORAGE_ACCOUNT_KEY",
}
"""Object stores by their schemes, and what says who asks."""

_RETRIED: Final = (
    30  # seconds for which a request is made again; Google's library would ask again for a quarter of an hour
)
_LOOK: Final = """
import sys
from rowbus.spark.lake.storage import file_system
system, root = file_system(sys.argv[1])
system.get_file_info(root.partition("/")[0])
"""


def is_remote(path: str) -> bool:
    """Return whether a lake's address is of an object store."""
    return urlsplit(path).scheme in _STORES


def address(place: str | Path) -> str:
    """Return a place's address, the same for driver and executors: an absolute path, or a URL of an object store.

    Raises ConfigurationError for URLs of other schemes, and such with credentials.
    """
    given = str(place).removeprefix("file://")
    if "://" not in given:
        return os.path.abspath(given)  # noqa: PTH100 - as text, as URLs are
    url = urlsplit(given)
    if url.scheme not in _STORES:
        raise ConfigurationError(
            f"A lake cannot be at an address that begins with {url.scheme}:// - give a path, or an address that begins "
            f"with {', '.join(f'{scheme}://' for scheme in _STORES)}.",
            option="path",
        )
    if url.password or url.query or (url.username and url.scheme != "abfss"):
        raise ConfigurationError(
            f"An address of a lake at {url.scheme}:// has no credentials and no parameters: leave them out, and set "
            f"{_STORES[url.scheme]}.",
            option="path",
        )
    return given.rstrip("/")


def file_system(path: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a folder, and the folder's name in it."""
    from pyarrow import fs  # noqa: PLC0415 - slow to import, and addresses are looked at without it

    if not is_remote(path):
        return fs.LocalFileSystem(), path
    if path.startswith("s3://"):
        return _s3(path), path.removeprefix("s3://")
    if path.startswith("abfss://"):
        return _azure(path)
    found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(f"{path}?retry_limit_seconds={_RETRIED}")
    return found


def check_storage(path: str) -> None:
    """Raise ConfigurationError for an object store that cannot be reached, or has no such bucket."""
    if not is_remote(path):
        return
    scheme, bucket = urlsplit(path).scheme, urlsplit(path).netloc
    try:
        if scheme == "abfss":
            _sign_in(path)
        system, root = file_system(path)
        found = system.get_file_info(root.partition("/")[0]).type.name != "NotFound"
    except OSError as error:
        own = "; for your own server, at AWS_ENDPOINT_URL" if scheme == "s3" else ""
        raise ConfigurationError(
            f"The storage of {path} refuses, or cannot be reached. Look at {_STORES[scheme]}{own}. It says: "
            f"{str(error).splitlines()[0]}",
            option="path",
        ) from error
    if not found:
        raise ConfigurationError(
            f"There is no bucket {bucket} in the storage of {path}: create it, or give another address.",
            option="path",
        )


@cache
def _sign_in(path: str) -> None:
    """Raise OSError for an account that Azure gives no token for: PyArrow ends its process by a signal then."""
    looking = [sys.executable, "-c", _LOOK, path]
    try:
        looked = subprocess.run(looking, capture_output=True, check=False, timeout=2 * _RETRIED)
    except subprocess.TimeoutExpired:
        raise OSError(f"Azure has not answered for {2 * _RETRIED} s.") from None
    if looked.returncode < 0:
        raise OSError("Azure gives no token for what the environment says.")


def s3_server() -> tuple[str | None, str | None]:
    """Return the server and the region that the environment says, by delta-rs's variables."""
    server = os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT")
    return server, os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


def _s3(path: str) -> fs.S3FileSystem:
    """Return S3 with the region and the server that delta-rs takes from the environment; credentials likewise."""
    from pyarrow import fs  # noqa: PLC0415 - as above

    server, region = s3_server()
    if region is None and server is None:
        region = fs.resolve_s3_region(urlsplit(path).netloc)
    return fs.S3FileSystem(region=region, endpoint_override=server)


def _azure(path: str) -> tuple[fs.FileSystem, str]:
    """Return the account that an address names, with what delta-rs takes from the environment, and the folder in it.

    What is said for Azure's own libraries (`AZURE_CLIENT_ID` and the like) they read themselves.
    """
    from pyarrow import fs  # noqa: PLC0415 - as above

    url = urlsplit(path)
    secrets = {"account_key": "AZURE_STORAGE_ACCOUNT_KEY", "sas_token": "AZURE_STORAGE_SAS_TOKEN"}
    given: dict[str, Any] = {name: os.environ.get(variable) for name, variable in secrets.items()}
    if os.environ.get("AZURE_STORAGE_USE_EMULATOR", "").lower() in {"true", "1"}:
        server = urlsplit(os.environ.get("AZURITE_BLOB_STORAGE_URL") or "http://127.0.0.1:10000")
        for kind in ("blob", "dfs"):
            given |= {f"{kind}_storage_authority": server.netloc, f"{kind}_storage_scheme": server.scheme}
    account = (url.hostname or "").partition(".")[0]
    return fs.AzureFileSystem(account, **given), f"{url.username or ''}{url.path}"
