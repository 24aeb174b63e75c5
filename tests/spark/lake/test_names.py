"""Tables and columns of a lake have any names, or are refused at the start where it cannot tell them apart."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from rowbus.errors import ConfigurationError
from rowbus.spark.pipelines.lake_tables import check_tables
from tests.spark.lake.following import Following

pytestmark = [
    pytest.mark.one_version,
    pytest.mark.filterwarnings("ignore"),  # of the libraries, about themselves
]


@pytest.fixture(params=["delta", "iceberg", "ducklake"])
def lake(
    request: pytest.FixtureRequest, log_database: str, pgq: psycopg.Connection, tmp_path: Path
) -> Following:
    return Following(log_database, pgq, tmp_path / "lake", request.param)


def test_names_that_need_quotes_are_followed(lake: Following) -> None:
    odd = "Zażółć & co: 5%20 a/b?;#[~]"
    lake.run('create schema "my shop"')
    lake.make(f'"my shop"."{odd}"', '"a.b" int primary key, "x y" text, "#" text')
    lake.run(f"""insert into "my shop"."{odd}" values (1, 'a', 'b'), (2, 'a', 'b')""")
    lake.copy()
    lake.run(f"""update "my shop"."{odd}" set "x y" = 'c' where "a.b" = 1""")
    lake.apply()

    assert lake.rows(f"my shop.{odd}", "a.b", "x y", "#") == [(1, "c", "b"), (2, "a", "b")]


def test_names_as_long_as_can_be_and_that_of_a_catalogue_are_followed(lake: Following) -> None:
    long = f'"{"ż" * 31}"."{"ó/%" * 15}"'
    lake.run(f'create schema "{"ż" * 31}"', "create schema catalog")
    for table in (long, "catalog.db"):
        lake.make(table, "id int primary key")
        lake.run(f"insert into {table} values (1)")
    lake.copy()
    lake.run(f"insert into {long} values (2)", "insert into catalog.db values (3)")
    lake.apply()

    assert lake.rows(long.replace('"', "")) == [(1,), (2,)]
    assert lake.rows("catalog.db") == [(1,), (3,)]
    assert long.replace('"', "") in lake.folder.names()


def test_what_a_lake_cannot_tell_apart_is_refused_before_it_begins(lake: Following) -> None:
    lake.run('create schema a; create schema "a.b"; create schema "A"')
    all_but_iceberg = {"delta", "ducklake"}
    for first, second, formats, said in (
        (
            '"a.b".c',
            'a."b.c"',
            {"iceberg", *all_but_iceberg},
            "a.b.c is captured twice, or the name of two tables",
        ),
        (
            "a.t",
            "public.slots (id int primary key deferrable)",
            {"iceberg", *all_but_iceberg},
            "public.slots has a deferr",
        ),
        ("a.t", "public.bare ()", {"iceberg", *all_but_iceberg}, "public.bare has no column"),
        ("a.t", 'a.u (v int, "V" text)', all_but_iceberg, 'a.u has two columns "v"'),
        ("a.t", 'a."T"', {"ducklake"}, "a.t has two spellings"),
        ("a.t", '"A".u', {"ducklake"}, "a has two spellings"),
    ):
        names = [first, second.partition(" ")[0]]
        lake.run(
            f"create table {first} (id int)",
            f"create table {second if '(' in second else second + '(id int)'}",
        )
        for name in names:
            lake.connection.execute(
                "select pgq.capture_table(%s, 'changes', 'json', '{insert-only}')", [name]
            )
        if lake.settings.format in formats:
            with pytest.raises(ConfigurationError, match=f"^{said}.*: .*, or release it"):
                check_tables(lake.settings, "lake")
        else:
            lake.copy()
        lake.run(*(f"drop table {name}" for name in names))
