"""Merging by key: the newest row of each key counts, whatever the order in which rows come."""

from __future__ import annotations

import random
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from rowbus.errors import ConfigurationError
from tests.fixtures.pairs import turn
from tests.spark.sink.conftest import Writing, rows

OPTIONS = {
    "deliver": "upsert",
    "table": "goods",
    "mergeKeys": "id",
    "sequenceBy": "seq",
    "deleteWhen": "op=D",
}


def change(*changes: tuple[int, str | None, int, str]) -> pa.RecordBatch:
    ids, names, seqs, ops = map(list, zip(*changes, strict=True))
    return rows(id=ids, name=names, seq=seqs, op=ops)


def goods(connection: psycopg.Connection) -> list[tuple[Any, ...]]:
    return connection.execute("select id, name from goods order by id").fetchall()


def test_the_newest_row_of_a_key_wins_within_a_batch(writing: Writing, pgq: psycopg.Connection) -> None:
    late = change((1, "newest", 9, "U"), (2, "gone", 1, "I"))
    writing.batch(0, change((1, "old", 1, "I"), (1, "older", 2, "U"), (2, None, 3, "D")), late, **OPTIONS)
    assert goods(pgq) == [(1, "newest")]


def test_an_older_row_never_overwrites_a_newer_one(writing: Writing, pgq: psycopg.Connection) -> None:
    writing.batch(0, change((1, "new", 5, "U")), **OPTIONS)
    writing.batch(1, change((1, "old", 4, "U")), **OPTIONS)
    assert goods(pgq) == [(1, "new")]


def test_an_older_row_never_brings_back_what_was_deleted(writing: Writing, pgq: psycopg.Connection) -> None:
    writing.batch(0, change((1, "new", 5, "U")), **OPTIONS)
    writing.batch(1, change((1, None, 7, "D")), **OPTIONS)
    writing.batch(2, change((1, "old", 6, "U"), (2, None, 9, "D")), **OPTIONS)
    writing.batch(3, change((2, "old", 8, "I")), **OPTIONS)
    assert goods(pgq) == []
    writing.batch(4, change((1, "again", 8, "I")), **OPTIONS)
    assert goods(pgq) == [(1, "again")]


@pytest.mark.parametrize("seed", turn(range(28), 1))
def test_no_order_and_no_cut_into_batches_changes_the_outcome(
    writing: Writing, pgq: psycopg.Connection, seed: int
) -> None:
    chance = random.Random(seed)
    history = [(chance.randrange(20), f"v{seq}", seq, chance.choice("IUUD")) for seq in range(200)]
    expected = {key: (name, op) for key, name, _seq, op in history}
    chance.shuffle(history)
    cuts = sorted(chance.sample(range(1, 200), 7))
    for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, 200], strict=True)):
        part = history[start:end]
        middle = chance.randrange(1, len(part)) if len(part) > 1 else 1
        halves = [half for half in (part[:middle], part[middle:]) if half]
        writing.batch(number, *(change(*half) for half in halves), **OPTIONS)
    assert goods(pgq) == sorted((key, name) for key, (name, op) in expected.items() if op != "D")


def test_a_boolean_column_may_say_what_is_deleted(writing: Writing, pgq: psycopg.Connection) -> None:
    options = {**OPTIONS, "deleteWhen": "gone"}
    batch = rows(id=[1, 2, 3], name=["a", "b", "c"], seq=[1, 1, 1], gone=[False, True, None])
    pgq.execute("insert into goods values (2, 'x')")
    writing.batch(0, batch, **options)
    assert goods(pgq) == [(1, "a"), (3, "c")]


def test_without_a_sequence_a_key_may_come_once_in_a_batch(writing: Writing, pgq: psycopg.Connection) -> None:
    options = {"deliver": "upsert", "table": "goods", "mergeKeys": "id"}
    writing.batch(0, rows(id=[1, 2], name=["a", "b"]), **options)
    writing.batch(1, rows(id=[2], name=["c"]), **options)
    assert goods(pgq) == [(1, "a"), (2, "c")]
    with pytest.raises(ConfigurationError, match="sequenceBy"):
        writing.batch(2, rows(id=[5, 5], name=["a", "b"]), **options)


def test_keys_of_several_columns_and_of_keys_alone(writing: Writing, pgq: psycopg.Connection) -> None:
    pgq.execute('create table "Tags" (good int8, tag text, primary key (good, tag))')
    options = {"deliver": "upsert", "table": '"Tags"', "mergeKeys": "good,tag", "sequenceBy": "seq"}
    writing.batch(0, rows(good=[1, 1, 1], tag=["x", "y", "x"], seq=[1, 2, 3]), **options)
    assert pgq.execute('select * from "Tags" order by tag').fetchall() == [(1, "x"), (1, "y")]


def test_a_table_without_a_unique_index_on_the_keys_is_refused(
    writing: Writing, pgq: psycopg.Connection
) -> None:
    pgq.execute("alter table goods drop constraint goods_pkey")
    with pytest.raises(ConfigurationError, match="unique index"):
        writing.batch(0, change((1, "a", 1, "I")), **OPTIONS)


@pytest.mark.one_version
def test_what_cannot_work_is_said_at_once(writing: Writing) -> None:
    with pytest.raises(ConfigurationError, match="prepared"):
        writing.writer(["id", "name", "seq", "op"], **OPTIONS, exactlyOnce="prepared")
    with pytest.raises(ConfigurationError, match="no column seq"):
        writing.writer(["id", "name", "op"], **OPTIONS)
