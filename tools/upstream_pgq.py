"""Run upstream PgQ's regression suites on our schema, and print which pass.

    python tools/upstream_pgq.py FOLDER [SUITE ...]

FOLDER is a copy of upstream's sources: `sql/*.sql` are the suites. They are not ours, so the repository does not hold
them. A suite runs in two new databases of a private PostgreSQL 15: one with our schema, one with the extensions that
Debian packages. Where no package has the extension (pgq_coop), `expected/SUITE.out` takes its place. The suites
include files of upstream's sources (`functions/…`, `structure/…`), which would replace our functions: empty files take
their place.

A suite passes if both outputs are the same but for padding and empty lines. The exit status is the number of suites
that differ.
"""

from __future__ import annotations

import difflib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from rowbus.database.embedded import Cluster, join, leave
from rowbus.database.postgresql.database import Database
from rowbus.log.schema.installer import install_now

BINARIES = Path("/usr/lib/postgresql/15/bin")
INITIAL = re.compile(r".*_init(_.*)?|init_.*|clean.*|switch_.*")
INCLUDED = re.compile(r"^\\i (\S+)", re.MULTILINE)
NEEDED = re.compile(r"\bpgq(?:_\w+)?(?=\.)")
EXTENSIONS = {"pgq", "pgq_coop", "pgq_ext", "pgq_node"}


def main(folder: Path, wanted: list[str]) -> int:
    """Run the suites of a folder; return how many differ."""
    suites = [
        suite
        for suite in sorted((folder / "sql").glob("*.sql"))
        if suite.stem in wanted or not (wanted or INITIAL.fullmatch(suite.stem))
    ]
    with private_server() as dsn:
        differing = [suite for suite in suites if not passes(dsn, suite, folder / "expected")]
    print(f"{len(suites) - len(differing)} of {len(suites)} pass")
    return len(differing)


@contextmanager
def private_server() -> Iterator[str]:
    """Give the DSN of a server that lives as long as the block."""
    with tempfile.TemporaryDirectory(prefix="rowbus-upstream-") as directory:
        Path(directory).chmod(0o711)
        cluster = Cluster(BINARIES, Path(directory) / "server")
        try:
            yield join(cluster)
        finally:
            leave(cluster)
            cluster.kill()


def passes(dsn: str, suite: Path, expected: Path) -> bool:
    """Say whether a suite's output is the same on both, and print the lines that are not."""
    ours, theirs = run(ours_in(dsn, suite), suite), reference(dsn, suite, expected)
    if theirs is None:
        print(f"? {suite.stem}: no package has its extension, and no {suite.stem}.out says what to expect")
        return False
    different = list(difflib.unified_diff(theirs, ours, "upstream", "rowbus", lineterm="", n=2))
    print(f"{'differs' if different else 'pass'} {suite.stem}", *different, sep="\n    ")
    return not different


def reference(dsn: str, suite: Path, expected: Path) -> list[str] | None:
    """Return what upstream's own code prints; None if it is nowhere."""
    database = theirs_in(dsn, suite)
    if database:
        return run(database, suite)
    written = expected / f"{suite.stem}.out"
    return normal(written.read_text("utf-8")) if written.exists() else None


def ours_in(dsn: str, suite: Path) -> str:
    """Return the DSN of a new database with our schema."""
    database = create(dsn, f"{suite.stem}_ours")
    with Database(database).session() as session:
        install_now(session)
    return database


def theirs_in(dsn: str, suite: Path) -> str | None:
    """Return the DSN of a new database with the extensions that a suite needs, where they are packaged."""
    needed = EXTENSIONS & {"pgq", *NEEDED.findall(suite.read_text("utf-8"))}
    with psycopg.connect(create(dsn, f"{suite.stem}_theirs"), autocommit=True) as connection:
        packaged = {name for (name,) in connection.execute("select name from pg_available_extensions")}
        if not needed <= packaged:
            return None
        for name in sorted(needed):
            connection.execute(sql.SQL("create extension {}").format(sql.Identifier(name)))
        return make_conninfo(dsn, dbname=connection.info.dbname)


def create(dsn: str, name: str) -> str:
    """Make a database, and return its DSN."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    return make_conninfo(dsn, dbname=name)


def run(database: str, suite: Path) -> list[str]:
    """Feed a suite to psql as upstream's `make installcheck` does, and return what it prints."""
    text = suite.read_text("utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for included in INCLUDED.findall(text):
            (Path(folder) / included).parent.mkdir(exist_ok=True)
            (Path(folder) / included).touch()
        psql = shutil.which("psql", path=BINARIES) or "psql"
        command = [psql, "-X", "-a", "-q", "-d", database]
        done = subprocess.run(
            command,
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            text=True,
            check=False,
        )
    return normal(done.stdout)


def normal(text: str) -> list[str]:
    """Return the lines that say something, without the padding of tables."""
    lines = (re.sub(r"\s+", " ", line).strip() for line in text.splitlines())
    return [re.sub(r"-{2,}", "--", line) for line in lines if line]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
