"""A lake in an object store, a real S3 server: the same steps as in a folder, and a query that goes on anywhere."""

from __future__ import annotations

import asyncio
import os
import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyarrow import fs

from rowbus.errors import ConfigurationError, StorageError
from rowbus.lake import visible
from rowbus.spark.lake.delta import commit_properties
from rowbus.spark.lake.storage import address, check_storage, file_system
from rowbus.spark.lake.table import AppTransaction
from rowbus.spark.lake.tables.comparison import compare_tables
from rowbus.spark.lake.tables.folder import LakeFolder, TableFormat, stored_table
from rowbus.spark.lake.tables.followed_table import FollowedTable
from rowbus.spark.lake.tables.query_record import kept_record, read_checkpoint
from rowbus.spark.lake.tables.upkeep import compact_tables, vacuum_tables
from rowbus.spark.pipelines.lake_tables import LakeCheckpoint, checkpoint_of
from tests.fixtures.iceberg_rest import rest_catalog
from tests.fixtures.s3 import ask
from tests.spark.lake.following import CAPTURED_ORDERS, Following

pytestmark = [
    pytest.mark.one_version,
    pytest.mark.filterwarnings("ignore"),  # of the libraries, about themselves
]
ORDERS = "public.orders"


@pytest.fixture
def log_script(log_script: str) -> str:
    return f"{log_script}; {CAPTURED_ORDERS}"


@pytest.fixture
def lake(s3: str, log_database: str, pgq: psycopg.Connection) -> Following:
    made = Following(log_database, pgq, f"{s3}/a/lake", "delta")
    made.run("insert into orders values (1, 'a', 1), (2, 'b', 2)")
    return made


def differing(lake: Following) -> list[str]:
    found = compare_tables(lake.folder.path, "changes", ("*",), lake.dsn, lambda _line: None)
    return [f"{table.name}: {table.says}" for table in found if not table.equal]


def test_tables_are_copied_followed_altered_and_kept_with_their_versions(lake: Following) -> None:
    lake.make('"Odd% näme"', "a int, b text")
    lake.settings = lake.settings_with_history()
    assert lake.copy() == {ORDERS: 2, "public.Odd% näme": 0}
    lake.run("update orders set total = 3 where id = 1", "delete from orders where id = 2")
    lake.run("""insert into "Odd% näme" values (1, 'x')""", "insert into orders values (3, 'c', 3)")
    lake.apply()
    lake.run("alter table orders add column note text", "insert into orders values (4, 'd', 4, 'new')")
    lake.apply()
    assert differing(lake) == []
    assert lake.rows(ORDERS, "id", "note") == [(1, None), (3, None), (4, "new")]
    assert lake.folder.versions()[ORDERS] == lake.version(ORDERS)
    assert lake.folder.names() == [
        "public.Odd% näme",
        "public.Odd% näme_history",
        ORDERS,
        f"{ORDERS}_history",
    ]


@pytest.mark.slow
def test_upkeep_merges_small_files_and_deletes_what_no_version_needs(lake: Following) -> None:
    lake.copy()
    for number in range(3, 12):
        lake.run(f"insert into orders values ({number}, 'x', {number})")
        lake.apply()
    assert compact_tables(lake.folder)[ORDERS] >= 8
    lake.folder.note_tick(lake.batches, {ORDERS: lake.version(ORDERS)})
    (table,) = vacuum_tables(lake.folder.path, older_than=timedelta(), dry_run=False, tell=lambda _line: None)
    assert len(table.files) >= 8
    assert differing(lake) == []


def test_a_ducklake_has_its_files_in_a_store_where_duckdb_reads_them(
    s3: str, log_database: str, pgq: psycopg.Connection
) -> None:
    lake = Following(log_database, pgq, f"{s3}/a/ducklake", "ducklake")
    lake.run("insert into orders values (1, 'a'), (2, 'b')")
    lake.copy()
    lake.run("update orders set customer = 'c' where id = 1", "delete from orders where id = 2")
    lake.apply()
    vacuum_tables(lake.folder.path, older_than=timedelta(), dry_run=False, tell=str, dsn=lake.dsn)
    assert differing(lake) == []
    assert lake.rows(ORDERS, "id", "customer") == [(1, "c")]


def test_a_commit_of_a_version_that_another_wrote_is_refused(lake: Following) -> None:
    lake.copy()
    late, batch = lake.delta(ORDERS), AppTransaction("another", 1)
    write_deltalake(lake.folder.table(ORDERS), lake.read(ORDERS), mode="append")
    with pytest.raises(CommitFailedError):
        late.delete(commit_properties=commit_properties(batch))
    assert DeltaTable(lake.folder.table(ORDERS)).transaction_version("another") is None


# ------------------------------------------------------------------------------------------------------- a query


def spark_begins(path: Path, batch: int, query: str = "q") -> None:
    """Write what Spark has written when it begins a batch."""
    for folder in ("offsets", "commits"):
        (path / folder).mkdir(parents=True, exist_ok=True)
    (path / "metadata").write_text(query)
    for number in range(batch + 1):
        (path / "offsets" / str(number)).write_text(f"v1\n{{}}\nthe end of {number}")
    for number in range(batch):
        (path / "commits" / str(number)).touch()


def files(path: Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())


def keeping(lake: Following, path: Path) -> Following:
    lake.settings = replace(lake.settings, kept_checkpoint=str(path))
    return lake


def test_a_run_on_another_machine_goes_on_with_the_batch_that_was_begun(
    lake: Following, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping(lake, tmp_path / "here").copy()
    for batch in range(3):
        spark_begins(tmp_path / "here", batch)
        lake.run(f"insert into orders values ({3 + batch}, 'x', 1)")
        lake.apply()
    there = LakeCheckpoint(lake.folder, tmp_path / "there", kept_elsewhere=True)
    there.prepare()
    assert files(there.path) == ["commits/1", "commits/2", "metadata", "offsets/1", "offsets/2"]
    spark_begins(tmp_path / "here", 3)
    lake.run("insert into orders values (9, 'x', 1)")
    staged = lake.stage()
    with monkeypatch.context() as patched:
        patched.setattr(FollowedTable, "apply", Mock(side_effect=ConfigurationError("no room")))
        with pytest.raises(ConfigurationError):
            lake.commit(staged, 3)
    there.prepare()
    assert files(there.path) == ["commits/2", "metadata", "offsets/2", "offsets/3"]
    assert (there.path / "offsets" / "3").read_text().endswith("the end of 3")


def test_a_batch_without_changes_is_kept_as_done(lake: Following, tmp_path: Path) -> None:
    keeping(lake, tmp_path / "here").copy()
    spark_begins(tmp_path / "here", 0)
    lake.commit([], 0)
    kept = kept_record(lake.folder.state)
    assert kept is not None
    assert (kept.batch, kept.done) == (0, True)


@pytest.mark.parametrize("batch, query", [(1, "q"), (2, "another")])
def test_a_run_that_began_at_an_older_batch_changes_no_table(
    lake: Following, tmp_path: Path, batch: int, query: str
) -> None:
    keeping(lake, tmp_path / "here").copy()
    spark_begins(tmp_path / "here", 2)
    lake.batches = 2
    lake.apply()
    spark_begins(tmp_path / "there", batch, query)
    lake.run("insert into orders values (9, 'x', 1)")
    version = lake.version(ORDERS)
    with pytest.raises(StorageError, match="another run went on meanwhile"):
        keeping(lake, tmp_path / "there").commit(lake.stage(), batch)
    assert lake.version(ORDERS) == version


def test_another_end_of_the_same_batch_is_refused(tmp_path: Path) -> None:
    spark_begins(tmp_path, 1)
    kept = read_checkpoint(tmp_path, 1)
    (tmp_path / "offsets" / "1").write_text("another end")
    assert kept.follows(kept)
    assert not read_checkpoint(tmp_path, 1).follows(kept)
    spark_begins(tmp_path, 4)
    assert not read_checkpoint(tmp_path, 4).follows(kept)


def test_a_lake_in_a_folder_has_its_checkpoint_there(tmp_path: Path) -> None:
    with checkpoint_of(LakeFolder(tmp_path / "lake")) as checkpoint:
        assert checkpoint.path == tmp_path / "lake" / "_rowbus" / "checkpoint"
        assert checkpoint.kept is None


# ------------------------------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    "given, said",
    [
        ("ftp://host/lake", "begins with ftp://.*s3://, gs://, abfss://"),
        ("s3://key:word@bucket/lake", "no credentials"),
        ("s3://bucket/lake?access_key=word", "no credentials"),
    ],
)
def test_an_address_of_no_lake_is_refused_without_its_secrets(given: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as raised:
        address(given)
    assert "word" not in str(raised.value)


def test_azure_and_google_are_reached_by_the_variables_of_delta_rs(monkeypatch: pytest.MonkeyPatch) -> None:
    key = b64encode(b"a secret").decode()
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", key)
    account = fs.AzureFileSystem("shop", account_key=key)
    assert file_system("abfss://lake@shop.dfs.core.windows.net/a/b") == (account, "lake/a/b")
    google, root = file_system("gs://anonymous@lake/a/b")
    assert (google.type_name, root) == ("gcs", "lake/a/b")
    pickled: Any = google.__reduce__()
    assert pickled[1][0]["retry_time_limit"] <= timedelta(seconds=30)
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    assert file_system("abfss://lake@shop.dfs.core.windows.net")[0] != account


@pytest.mark.parametrize(
    "catalog, kind, said",
    [
        ("postgresql://me:word@host/lakes", "iceberg", "no password"),
        ("lakes", "delta", "for the formats iceberg"),
    ],
)
def test_a_catalogue_that_a_lake_cannot_note_is_refused(
    tmp_path: Path, catalog: str, kind: TableFormat, said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said) as raised:
        LakeFolder(tmp_path).settle(kind, catalog)
    assert "word@" not in str(raised.value)


def test_iceberg_tables_need_a_catalogue_that_pyiceberg_is_told(s3: str) -> None:
    with pytest.raises(ConfigurationError, match="PYICEBERG_CATALOG__ROWBUS__URI"):
        stored_table(f"{s3}/lake/public.orders", ORDERS, "iceberg").newest("copy")


@pytest.fixture(params=["sql", "glue", "rest"])
def catalog(
    request: pytest.FixtureRequest, s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str | None]:
    """Give what names a catalogue of Iceberg tables."""
    if request.param == "sql":
        monkeypatch.setenv("PYICEBERG_CATALOG__ROWBUS__URI", f"sqlite:///{tmp_path}/catalog.db")
        yield None
    elif request.param == "glue":
        monkeypatch.setenv("PYICEBERG_CATALOG__AWS__TYPE", "glue")
        yield "aws"
    else:
        monkeypatch.setenv("PYICEBERG_CATALOG__ROWBUS__CREDENTIAL", "tests:a secret of tests")
        with rest_catalog(f"{tmp_path}/catalog.db", "tests:a secret of tests") as url:
            yield url


def test_iceberg_tables_are_copied_followed_and_looked_after(
    s3: str, catalog: str | None, log_database: str, pgq: psycopg.Connection
) -> None:
    lake = Following(log_database, pgq, f"{s3}/lake", "iceberg", catalog=catalog)
    lake.run("insert into orders values (1, 'a', 1), (2, 'b', 2)")
    assert lake.copy() == {ORDERS: 2}
    lake.run("update orders set total = 3 where id = 1", "delete from orders where id = 2")
    lake.apply()
    lake.run("alter table orders add column note text", "insert into orders values (4, 'd', 4, 'new')")
    lake.apply()
    vacuum_tables(lake.folder.path, older_than=timedelta(), dry_run=False, tell=lambda _line: None)
    lake.settings = replace(lake.settings, catalog=None)  # it is noted
    assert differing(lake) == []
    lake.apply()


def test_a_bucket_that_is_missing_is_said(s3: str) -> None:
    check_storage(f"{s3}/lake")
    with pytest.raises(ConfigurationError, match="There is no bucket nowhere"):
        check_storage("s3://nowhere/lake")
    with pytest.raises(ConfigurationError, match="There is no bucket nowhere"):
        asyncio.run(visible(1, within=None, to="s3://nowhere/lake"))


def test_azure_that_gives_no_token_is_said_by_a_process_that_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AZURE_")]:
        monkeypatch.delenv(name)
    with pytest.raises(ConfigurationError, match=r"refuses.*AZURE_CLIENT_ID.*no token"):
        check_storage("abfss://lake@shop.dfs.core.windows.net/a")


def test_credentials_that_are_missing_are_said_and_none_is_told(
    s3: str, s3_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(s3_server, "moto-api/reset-auth", "POST", b"0")
    try:
        with pytest.raises(ConfigurationError, match=r"refuses.*AWS_ACCESS_KEY_ID") as raised:
            check_storage(f"{s3}/lake")
    finally:
        ask(s3_server, "moto-api/reset-auth", "POST", b"1000000")
    assert "a secret of tests" not in str(raised.value)


def test_state_has_no_secrets(lake: Following, tmp_path: Path, s3_server: str) -> None:
    keeping(lake, tmp_path / "here").copy()
    spark_begins(tmp_path / "here", 0)
    lake.run("insert into orders values (9, 'x', 1)")
    lake.apply()
    bucket = lake.folder.path.split("/")[2]
    listed = ask(s3_server, f"{bucket}?list-type=2&prefix=a/lake/_rowbus/", "GET").decode()
    state = [key for key in re.findall(r"<Key>(.*?)</Key>", listed) if key.endswith(".json")]
    assert len(state) >= 3
    assert not [key for key in state if b"a secret" in ask(s3_server, f"{bucket}/{key}", "GET")]
