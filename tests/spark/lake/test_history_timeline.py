"""Versions of a row follow one another, whatever the events' times say."""

from __future__ import annotations

from datetime import UTC, datetime

from rowbus.spark.lake.tables.history.timeline import (
    COPY,
    DELETE,
    INSERT,
    UPDATE,
    Change,
    Epoch,
    Mark,
    Timeline,
    Version,
    epoch_of,
)
from rowbus.spark.log_source.offset import TxidSnapshot


def at(second: int) -> datetime:
    return datetime(2026, 11, 24, 10, 0, second, tzinfo=UTC)


FIRST = Epoch(TxidSnapshot(100, 100), at(10))
SECOND = Epoch(TxidSnapshot(200, 200), at(30))


def spans(line: Timeline) -> list[tuple[int, str, int, int | None]]:
    return [
        (it.row, it.begin.operation, it.begin.time.second, it.end and it.end.time.second)
        for it in line.versions
    ]


def timeline(*versions: Version, epochs: tuple[Epoch, ...] = (FIRST, SECOND)) -> Timeline:
    return Timeline(versions, epochs, lambda one, other: one == other)


def change(event: int, second: int, row: int | None, epoch: int = 0, word: str = UPDATE) -> Change:
    return Change(epoch, event, Mark(at(second), word, 100 * (epoch + 1) + event), row)


def test_a_transaction_belongs_to_the_last_copy_that_does_not_see_it() -> None:
    assert [epoch_of(transaction, (FIRST, SECOND)) for transaction in (99, 100, 199, 200)] == [None, 0, 0, 1]


def test_a_change_comes_neither_before_its_copy_nor_after_the_next_one() -> None:
    """As when a server's clock was set, or a transaction began before the copy."""
    line = timeline(Version(0, Mark(at(10), COPY), held=True))
    line.apply(change(1, 5, 1))
    line.apply(change(2, 40, 2))

    assert spans(line) == [
        (0, "COPY", 10, 10),
        (1, "UPDATE", 10, 30),
        (2, "UPDATE", 30, 30),
        (0, "COPY", 30, None),
    ]


def test_a_version_does_not_begin_before_the_end_of_the_one_before() -> None:
    line = timeline(Version(0, Mark(at(10), COPY), held=True), epochs=(FIRST,))
    line.apply(change(1, 25, None, word=DELETE))
    line.apply(change(2, 15, 1, word=INSERT))
    line.apply(change(3, 12, 2))

    assert spans(line) == [(0, "COPY", 10, 25), (1, "INSERT", 25, 25), (2, "UPDATE", 25, None)]


def test_what_the_next_copy_says_stays_until_all_changes_before_it_have_come() -> None:
    line = timeline(Version(0, Mark(at(10), COPY), held=True))
    line.apply(change(1, 15, 1))
    assert spans(line) == [(0, "COPY", 10, 15), (1, "UPDATE", 15, 30), (0, "COPY", 30, None)]
    line.apply(change(2, 20, None, word=DELETE))
    assert spans(line) == [(0, "COPY", 10, 15), (1, "UPDATE", 15, 20), (0, "COPY", 30, None)]
    line.apply(change(3, 25, 0, word=INSERT))
    assert spans(line) == [(0, "COPY", 10, 15), (1, "UPDATE", 15, 20), (0, "INSERT", 25, None)]


def test_a_row_that_a_copy_does_not_show_ends_with_it() -> None:
    line = timeline()
    line.apply(change(1, 15, 1, word=INSERT))
    assert spans(line) == [(1, "INSERT", 15, 30)]
    line.apply(change(2, 20, None, word=DELETE))
    assert spans(line) == [(1, "INSERT", 15, 20)]
