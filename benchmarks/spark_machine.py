"""Where the comparisons of Spark run: one session for all, and a server that also JDBC can reach.

Invariant: the server listens on the loopback interface only, and neither it nor the JVM outlives the run.
"""

from __future__ import annotations

import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from benchmarks.log_databases import DEBIAN_15
from benchmarks.measuring import Meter
from benchmarks.reporting import NotRunError
from rowbus.database.embedded import Cluster, find_binaries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

JDBC_DRIVER = Path("/usr/share/java/postgresql.jar")
JDBC_PACKAGE = "apt-get install libpostgresql-jdbc-java"
FETCH = "10000"  # rows; JDBC's default would have all of them in memory
HBA = "local all all trust\nhost all all 127.0.0.1/32 trust\n"
SPARK = {
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
}


@dataclass(frozen=True, slots=True)
class Machine:
    """Arguments of a comparison: a server, its session of Spark, and how long to measure."""

    version: int
    cluster: Cluster
    port: int
    meter: Meter
    rounds: int
    scale: float

    @property
    def dsn(self) -> str:
        """The server's database, through TCP as JDBC has to."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def dsn_of(self, database: str) -> str:
        """Return another database on it."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def jdbc_of(self, database: str) -> dict[str, str]:
        """Return the options of Spark's JDBC source and sink for a database."""
        url = f"jdbc:postgresql://127.0.0.1:{self.port}/{database}?user=postgres&reWriteBatchedInserts=true"
        return {"url": url, "driver": "org.postgresql.Driver"}

    def jdbc_read(self, database: str, table: str, predicates: Sequence[str]) -> DataFrame:
        """Return a table by Spark's JDBC source, with a partition for each predicate."""
        options = self.jdbc_of(database)
        properties = {"driver": options["driver"], "fetchsize": FETCH}
        return self.spark.read.jdbc(options["url"], table, predicates=list(predicates), properties=properties)

    @property
    def spark(self) -> SparkSession:
        """The session that all comparisons share."""
        return session()

    def create(self, database: str) -> str:
        """Make a database anew and return its DSN."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f"drop database if exists {database} with (force)".encode())
            connection.execute(f"create database {database}".encode())
        return self.dsn_of(database)

    def events(self, count: int) -> int:
        """Return a number of events, scaled."""
        return max(2_000, int(count * self.scale))

    def statements(self, database: str) -> int:
        """Count the statements that the server's log has of one database; `log_statement` has to be `all` there."""
        text = (self.cluster.directory / "server.log").read_text("utf-8", errors="replace")
        return len(re.findall(rf"^\[{database}\] LOG:  (?:statement|execute [^:]*):", text, re.MULTILINE))


def need_jdbc() -> None:
    """Raise unless the driver is installed."""
    if not JDBC_DRIVER.exists():
        raise NotRunError(f"the JDBC driver is not installed ({JDBC_PACKAGE})")


def need_delta() -> None:
    """Raise unless the library that writes Delta tables is installed."""
    if find_spec("deltalake") is None:
        raise NotRunError("deltalake is not installed (make setup)")


@cache
def session() -> SparkSession:
    """Start Spark with two cores, and the JDBC driver if there is one."""
    import rowbus.spark  # noqa: PLC0415 - only these comparisons need Spark

    jar = {"spark.jars": str(JDBC_DRIVER), "spark.driver.extraClassPath": str(JDBC_DRIVER)}
    return rowbus.spark.session(
        "benchmarks", master="local[2]", **SPARK, **(jar if JDBC_DRIVER.exists() else {})
    )


def versions(only: int | None = None) -> list[tuple[int, Path]]:
    """Name the servers that can be started, or the one of a version. Raises NotRunError when it is not here."""
    debian = [(15, DEBIAN_15)] if (DEBIAN_15 / "postgres").exists() else []
    found = [
        (version, place) for version, place in (*debian, (18, find_binaries())) if only in {None, version}
    ]
    if not found:
        raise NotRunError(f"there is no PostgreSQL {only} here")
    return found


@contextmanager
def machine(version: int, rounds: int, scale: float) -> Iterator[Machine]:
    """Start a server of a version and stop it in the end."""
    binaries = dict(versions())[version]
    directory = Path(tempfile.mkdtemp(prefix="rowbus-bench-"))
    directory.chmod(0o711)  # the server runs as another user when we are root
    hba, port = directory / "pg_hba.conf", _free_port()
    hba.write_text(HBA)
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "hba_file": str(hba),
        "log_line_prefix": "[%d] ",
        "max_prepared_transactions": "20",
        "max_wal_size": "4GB",
    }
    cluster = Cluster(binaries, directory / "server", settings=settings)
    try:
        cluster.start()
        dsn = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        yield Machine(version, cluster, port, Meter(dsn), rounds, scale)
    finally:
        cluster.stop("immediate")
        shutil.rmtree(directory)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
