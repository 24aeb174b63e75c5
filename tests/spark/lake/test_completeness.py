"""Statements on how far a lake's tables are: never more than they show, and all of it once it is there."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner

import rowbus
from rowbus.cli import app
from rowbus.database.postgresql.database import Database
from rowbus.errors import ConfigurationError, StorageError
from rowbus.spark.lake.tables.folder import (
    COMPLETE,
    STATE,
    Completeness,
    Copy,
    LakeFolder,
    completeness,
    is_shown,
)
from rowbus.spark.log_source.offset import LogOffset, TickPosition, offsets_to_json
from rowbus.spark.log_source.snapshot_range import find_tick
from rowbus.spark.pipelines.lake_tables import checkpoint_of
from tests.fixtures.every import every
from tests.spark.lake.following import Following

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MICROSECOND = timedelta(microseconds=1)

libraries = pytest.mark.filterwarnings("ignore")  # of the libraries, about themselves
real = pytest.mark.one_version


def copied(snapshot: str, time: datetime = NOON) -> Copy:
    return Copy(snapshot, "", [], began=int(time.timestamp() * 1_000_000))


def tick(number: int, snapshot: str, time: datetime = NOON) -> TickPosition:
    return TickPosition(number, snapshot, 0, time.isoformat())


def test_a_transaction_is_shown_that_had_ended_at_the_snapshot() -> None:
    at = Completeness(3, NOON, "10:20:10,15")

    assert [txid for txid in (9, 10, 11, 15, 19, 20) if at.shows(txid)] == [9, 11, 19]


def test_a_time_is_shown_up_to_that_of_the_tick() -> None:
    at = Completeness(3, NOON, "10:20:")

    assert at.shows(NOON)
    assert not at.shows(NOON + MICROSECOND)


def test_a_table_is_as_far_as_the_later_of_its_copy_and_the_tick() -> None:
    earlier, later = "10:20:10,15", "10:20:15"

    assert completeness([copied(earlier)], tick(7, later, NOON + HOUR)) == (7, NOON + HOUR, later)
    assert completeness([copied(later, NOON + HOUR)], tick(7, earlier)) == (7, NOON + HOUR, later)
    assert completeness([copied(later)], None) == (None, NOON, later)
    assert completeness([], tick(7, later)) is None


def test_of_copies_of_which_one_may_not_be_there_the_earliest_counts() -> None:
    assert completeness([copied("30:40:"), copied("10:20:", NOON - HOUR)], None) == (
        None,
        NOON - HOUR,
        "10:20:",
    )


def test_each_pattern_has_to_name_a_table_and_each_table_to_show_it() -> None:
    tables = {
        "public.orders": Completeness(1, NOON, "10:10:"),
        "shop.items": Completeness(1, NOON, "20:20:"),
        "shop.stock": Completeness(1, NOON, "30:30:"),
    }

    assert is_shown(tables, ["shop.*"], 19)
    assert not is_shown(tables, ["shop.*"], 20)
    assert is_shown(tables, ["orders"], 9)
    assert not is_shown(tables, ["orders", "shop.none"], 9)
    assert not is_shown({}, ["*"], 9)


@pytest.fixture(params=["delta", "iceberg"])
def lake(
    request: pytest.FixtureRequest, log_database: str, pgq: psycopg.Connection, tmp_path: Path
) -> Following:
    made = Following(log_database, pgq, tmp_path / "lake", request.param)
    made.make("orders", "id int primary key")
    return made


def apply(lake: Following, *, quiet: bool = False) -> int:
    """Apply what is new as a micro-batch of Spark's, whose end is in the checkpoint before it runs.

    A `quiet` one is of ticks without events: no task has anything to stage.
    """
    end = lake.tick()
    with Database(lake.dsn).session() as session:
        at = session.run(find_tick("changes", end))
    assert at is not None
    file = lake.settings.checkpoint / "offsets" / str(lake.batches)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"v1\n{{}}\n{json.dumps(offsets_to_json({'changes': LogOffset(at)}))}")
    if quiet:
        lake.commit([], lake.batches)
        lake.batches += 1
    else:
        lake.apply(until=end)
    return end


def write(connection: psycopg.Connection, id_: int) -> int:
    """Insert an order, and return the token of the transaction that does it."""
    with connection.transaction():
        connection.execute("insert into orders values (%s)", [id_])
        return rowbus.Log(connection, "changes").position()


@real
@libraries
def test_what_a_transaction_wrote_is_shown_once_it_is_there(lake: Following) -> None:
    to = lake.folder.path
    in_copy = write(lake.connection, 1)
    assert not rowbus.lake.is_complete(in_copy, to=to)  # nothing is there
    lake.copy()
    assert rowbus.lake.is_complete(in_copy, to=to)
    with psycopg.connect(lake.dsn) as late, late.transaction():
        late.execute("insert into orders values (2)")
        running = rowbus.Log(late, "changes").position()
        told = write(lake.connection, 3)
        assert not rowbus.lake.is_complete(told, to=to)
        apply(lake)
        assert rowbus.lake.is_complete(told, to=to)
        assert not rowbus.lake.is_complete(running, to=to)
    assert lake.rows("public.orders", "id") == [(1,), (3,)]
    apply(lake)
    assert rowbus.lake.is_complete(running, to=to)
    assert lake.rows("public.orders", "id") == [(1,), (2,), (3,)]


@real
@libraries
def test_a_quiet_hour_is_complete_at_the_tick_after_it(lake: Following) -> None:
    lake.copy()
    end = lake.one("select clock_timestamp()")
    assert not rowbus.lake.is_complete(end, to=lake.folder.path)
    newest = apply(lake, quiet=True)

    assert rowbus.lake.is_complete(end, to=lake.folder.path)
    assert {one.tick for one in rowbus.lake.complete(to=lake.folder.path).values()} == {newest}


@real
@libraries
def test_a_copy_is_complete_up_to_a_time_before_its_snapshot(lake: Following) -> None:
    before = lake.one("select clock_timestamp()")
    lake.copy()
    after = lake.one("select clock_timestamp()")

    assert rowbus.lake.is_complete(before, to=lake.folder.path)
    assert not rowbus.lake.is_complete(after, to=lake.folder.path)
    (copy,) = lake.folder.copies("public.orders").values()
    assert copy.began < copy.moment


@real
@libraries
def test_of_a_table_that_is_not_followed_any_more_nothing_is_said(lake: Following) -> None:
    lake.make("zoo", "id int primary key")
    lake.copy()
    assert rowbus.lake.complete(to=lake.folder.path).keys() == {"public.orders", "public.zoo"}
    lake.settings = replace(lake.settings, tables=("orders",))
    apply(lake, quiet=True)

    assert rowbus.lake.complete(to=lake.folder.path).keys() == {"public.orders"}


@real
@libraries
def test_a_run_begins_with_what_its_checkpoint_says(lake: Following) -> None:
    lake.copy()
    told = write(lake.connection, 1)
    apply(lake)
    commits = lake.settings.checkpoint / "commits"
    commits.mkdir()
    (commits / "0").write_text("v1\n{}")
    lake.copy()

    assert rowbus.lake.is_complete(told, to=lake.folder.path)


@real
@libraries
def test_of_tables_that_are_all_copied_anew_nothing_is_said_until_they_are(lake: Following) -> None:
    lake.copy()
    with checkpoint_of(lake.folder) as checkpoint:
        checkpoint.begin_anew("lake", lake.dsn)
    assert rowbus.lake.complete(to=lake.folder.path) == {}
    lake.copy()

    assert rowbus.lake.complete(to=lake.folder.path).keys() == {"public.orders"}


def folder_with(path: Path, snapshot: str) -> LakeFolder:
    folder = LakeFolder(path)
    folder.note_copy("public.orders", 1, copied(snapshot), instead_of=0)
    folder.note_complete(["public.orders"], None)
    return folder


async def test_a_look_that_comes_too_early_is_repeated(tmp_path: Path) -> None:
    folder_with(tmp_path, "10:10:")
    waiting = asyncio.ensure_future(rowbus.lake.visible(10, within="60s", to=tmp_path))
    done, _ = await asyncio.wait([waiting], timeout=0.2)
    assert not done
    folder_with(tmp_path, "11:11:")

    assert await waiting


async def test_after_its_span_a_wait_says_that_it_was_in_vain(tmp_path: Path) -> None:
    folder_with(tmp_path, "10:10:")

    assert not await rowbus.lake.visible(10, within=timedelta(milliseconds=1), to=tmp_path)
    assert await rowbus.lake.visible(9, within="0s", to=tmp_path)


def test_a_lake_that_cannot_be_read_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / STATE / COMPLETE).mkdir(parents=True)

    with pytest.raises(StorageError, match=r"^The lake .* cannot be read: .*Is a directory"):
        rowbus.lake.complete(to=tmp_path)


def test_the_environment_says_which_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder_with(tmp_path, "10:10:")
    with pytest.raises(ConfigurationError, match="ROWBUS_LAKE"):
        rowbus.lake.is_complete(9)
    monkeypatch.setenv("ROWBUS_LAKE", str(tmp_path))

    assert rowbus.lake.is_complete(9)


@every("until", [True, 0, "9", None, 9.0])
def test_what_is_neither_a_time_nor_a_transaction_is_refused(tmp_path: Path, until: object) -> None:
    with pytest.raises(ConfigurationError, match="neither a time nor"):
        rowbus.lake.is_complete(until, to=tmp_path)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have this process in another zone than UTC."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_tokyo")
def test_a_time_without_a_zone_is_of_utc(tmp_path: Path) -> None:
    folder_with(tmp_path, "10:10:")

    assert rowbus.lake.is_complete(NOON.replace(tzinfo=None), to=tmp_path)
    assert not rowbus.lake.is_complete((NOON + MICROSECOND).replace(tzinfo=None), to=tmp_path)


Ask = Callable[..., tuple[int, str]]


@pytest.fixture
def wait(tmp_path: Path) -> Ask:
    def wait(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["spark", "lake", "wait", "--to", str(tmp_path), *arguments])
        return result.exit_code, result.output

    return wait


@every(
    "until, code", [("9", 0), ("10", 1), ("2026-05-01T12:00", 0), ("2026-05-01T12:01+00:00", 1), ("noon", 2)]
)
def test_the_command_asks_for_a_transaction_or_a_time(
    wait: Ask, tmp_path: Path, until: str, code: int
) -> None:
    folder_with(tmp_path, "10:10:")

    assert wait("--until", until, "--within", "0s")[0] == code


def test_the_command_says_how_far_the_tables_are(wait: Ask, tmp_path: Path) -> None:
    assert wait()[0] == 1
    folder_with(tmp_path, "10:10:")

    assert wait() == (0, "public.orders is complete up to 2026-05-01 12:00:00.000000 UTC.\n")
    assert json.loads(wait("--json")[1])["public.orders"]["snapshot"] == "10:10:"
    assert wait("--tables", "none") == (
        1,
        f"rowbus: no table named none is followed in {tmp_path}\n",
    )
