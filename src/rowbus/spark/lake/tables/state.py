"""Facts of a lake beside its tables: small JSON files, in the lake's folder or object store.

They lie where the tables are, so a lake can be read, compared and moved without the database that it follows; nothing
in them must change together with it, because each table's own commits say what counts.

Invariant: a file is replaced as a whole, so a killed process leaves the old one or the new one. An object store does
that with any object; on a disk it is a new file that is renamed.
"""

from __future__ import annotations

import json
import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rowbus.spark.lake.storage import file_system, is_remote

if TYPE_CHECKING:
    from pyarrow import fs


class StateFiles(Protocol):
    """JSON files in a folder, by their names within it."""

    def read(self, name: str, otherwise: Any = None) -> Any:  # noqa: ANN401 - what JSON can say
        """Read a file; where there is none, return something else."""
        ...

    def write(self, name: str, value: Any) -> None:  # noqa: ANN401 - what JSON can say
        """Replace a file as a whole."""
        ...

    def names(self, folder: str) -> set[str]:
        """Return the names of the files in a folder, without the ending; empty where there is no folder."""
        ...

    def remove(self, name: str) -> None:
        """Delete a file, if it is there."""
        ...

    def has(self, name: str) -> bool:
        """Return whether there is a file or a folder; with the empty name, the folder of the files itself."""
        ...


def state_files(path: str) -> StateFiles:
    """Return the files of a folder. No I/O."""
    return _Objects(path) if is_remote(path) else _LocalFiles(Path(path))


class _LocalFiles:
    """Files of this machine; they are read without PyArrow, which web applications need not have."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, name: str, otherwise: Any = None) -> Any:  # noqa: ANN401 - what JSON can say
        try:
            return json.loads((self._path / name).read_text())
        except FileNotFoundError:
            return otherwise

    def write(self, name: str, value: Any) -> None:  # noqa: ANN401 - what JSON can say
        path = self._path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        with new.open("w") as file:
            json.dump(value, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)

    def names(self, folder: str) -> set[str]:
        return {file.stem for file in (self._path / folder).glob("*.json")}

    def remove(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)

    def has(self, name: str) -> bool:
        return (self._path / name).exists()


class _Objects:
    """Objects of a store."""

    def __init__(self, path: str) -> None:
        self._path = path

    @cached_property
    def _place(self) -> tuple[fs.FileSystem, str]:
        return file_system(self._path)

    def read(self, name: str, otherwise: Any = None) -> Any:  # noqa: ANN401 - what JSON can say
        system, root = self._place
        try:
            with system.open_input_stream(f"{root}/{name}") as file:
                return json.loads(file.read())
        except FileNotFoundError:
            return otherwise

    def write(self, name: str, value: Any) -> None:  # noqa: ANN401 - what JSON can say
        system, root = self._place
        with system.open_output_stream(f"{root}/{name}") as file:
            file.write(json.dumps(value).encode())

    def names(self, folder: str) -> set[str]:
        from pyarrow import fs  # noqa: PLC0415 - slow to import

        system, root = self._place
        found = system.get_file_info(fs.FileSelector(f"{root}/{folder}", allow_not_found=True))
        return {file.base_name.removesuffix(".json") for file in found if file.base_name.endswith(".json")}

    def remove(self, name: str) -> None:
        system, root = self._place
        try:
            system.delete_file(f"{root}/{name}")
        except FileNotFoundError:
            return

    def has(self, name: str) -> bool:
        system, root = self._place
        return bool(system.get_file_info(f"{root}/{name}".rstrip("/")).type.name != "NotFound")
