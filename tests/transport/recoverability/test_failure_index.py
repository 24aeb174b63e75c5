"""The index of a long error queue: it holds what the queue holds, reads each row once, and stays quick."""

from __future__ import annotations

import json
import sys
import time
import uuid
from typing import TYPE_CHECKING

import pytest

from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.recoverability.failed_message import Selection
from rowbus.transport.recoverability.failures.index import FailureIndex, Search, find, groups, listed
from rowbus.transport.recoverability.failures.postgresql import FailuresTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rowbus.database.postgresql.connection import Session

ERRORS = QueueAddress("public", "error")
MANY = 100_000


@pytest.fixture
def errors(session: Session) -> Session:
    for statement in QueueTable(ERRORS).create():
        session.run(statement)
    return session


def add(
    session: Session,
    message_id: str,
    *,
    seq: int | None = None,
    body: bytes = b"{}",
    more: Mapping[str, str] | None = None,
) -> None:
    headers = {Header.MESSAGE_ID: message_id, Header.EXCEPTION_TYPE: "shop.OutOfStockError", **(more or {})}
    session.connection.execute(
        "insert into error (id, headers, body, seq) values (%s, %s, %s, coalesce(%s, nextval('error_seq_seq')))",
        (uuid.uuid4(), json.dumps(headers), body, seq),
    )


def ids(index: FailureIndex) -> list[str]:
    return [failure.failed.message_id for failure in index.failures]


def test_it_holds_what_the_queue_holds_the_newest_first(errors: Session) -> None:
    index = FailureIndex(ERRORS)
    for name in ("one", "two", "three"):
        add(errors, name)
    index.refresh(errors)
    errors.connection.execute("delete from error where seq = 2")
    add(errors, "four")

    index.refresh(errors)

    assert ids(index) == ["four", "three", "one"]
    assert not index.unread


def test_a_row_that_commits_late_below_others_is_read(errors: Session) -> None:
    index = FailureIndex(ERRORS)
    add(errors, "early", seq=10)
    index.refresh(errors)

    add(errors, "late", seq=5)
    index.refresh(errors)

    assert ids(index) == ["early", "late"]


def test_acknowledgements_are_left_out_and_counted(errors: Session) -> None:
    index = FailureIndex(ERRORS)
    add(errors, "failed")
    add(errors, "told", more={Header.CONTROL_MESSAGE: "True", Header.RETRY_SUCCESSFUL: "now"})

    index.refresh(errors)

    assert ids(index) == ["failed"]
    assert index.acknowledgements == 1


def test_a_refresh_reads_for_a_bounded_time_and_goes_on_where_it_stopped(errors: Session) -> None:
    errors.connection.execute(
        "insert into error (id, headers) select gen_random_uuid(), '{}' from generate_series(1, 1200)"
    )
    index = FailureIndex(ERRORS)
    ticks = iter(range(100))

    index.refresh(errors, seconds=1, clock=lambda: float(next(ticks)))
    seen = len(index.failures)
    index.refresh(errors)

    assert 0 < seen < 1200
    assert len(index.failures) == 1200


def test_a_row_is_read_once(errors: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    index = FailureIndex(ERRORS)
    add(errors, "one")
    index.refresh(errors)
    add(errors, "two")
    read = list[int]()
    stories = FailuresTable.stories

    def noting(self: FailuresTable, positions: list[int]) -> object:
        read.extend(positions)
        return stories(self, positions)

    monkeypatch.setattr(FailuresTable, "stories", noting)
    index.refresh(errors)
    index.refresh(errors)

    assert read == [2]


def test_a_queue_that_is_too_long_is_cut(errors: Session) -> None:
    for name in ("one", "two", "three"):
        add(errors, name)
    index = FailureIndex(ERRORS, most=2)

    index.refresh(errors)

    assert ids(index) == ["three", "two"]
    assert index.is_cut


def test_a_search_for_text_that_has_no_time_left_says_where_it_stopped(errors: Session) -> None:
    for number in range(2500):
        add(errors, f"m-{number}", body=b"needle" if number == 0 else b"hay")
    index = FailureIndex(ERRORS)
    index.refresh(errors)
    ticks = iter([0.0, 0.1, 0.1, 5.0])

    first = find(errors, index, Search(text="needle"), most=5, seconds=1, clock=lambda: next(ticks))
    rest = find(errors, index, Search(text="needle"), most=5, before=first.after, seconds=60)

    assert first.timed_out
    assert first.failures == []
    assert first.looked_at == 1000
    assert [failure.failed.message_id for failure in rest.failures] == ["m-0"]
    assert rest.of == 1500


@pytest.mark.slow
def test_a_hundred_thousand_failures(errors: Session, capsys: pytest.CaptureFixture[str]) -> None:
    """Costs of a page: one read of an index and work in memory; prints what it takes."""
    errors.connection.execute(
        """
        insert into error (id, headers, body)
        select gen_random_uuid(),
            json_build_object(
                'NServiceBus.MessageId', 'm-' || i,
                'NServiceBus.EnclosedMessageTypes', 'Shop.Order' || i %% 20,
                'NServiceBus.ExceptionInfo.ExceptionType', 'shop.Error' || i %% 7,
                'NServiceBus.ExceptionInfo.Message', 'no tents for ORD-' || i,
                'NServiceBus.ExceptionInfo.StackTrace', repeat('   at shop.prices.of() in /srv/shop.py:line 6', 40),
                'NServiceBus.FailedQ', '"public"."Sales"',
                'NServiceBus.TimeOfFailure', '2026-05-01 12:00:00:000000 Z'
            )::text,
            convert_to('{"order": "ORD-' || i || '"}', 'UTF8')
        from generate_series(1, %s) as i
        """,
        (MANY,),
    )
    errors.connection.execute("vacuum analyze error")
    index = FailureIndex(ERRORS)
    table = FailuresTable(ERRORS)

    took = {
        "fill the index": timed(lambda: index.refresh(errors)),
        "refresh it": timed(lambda: index.refresh(errors)),
        "groups": timed(lambda: groups(index.failures)),
        "a page": timed(lambda: listed(index, Search(), most=50)),
        "a page by type": timed(
            lambda: listed(index, Search(Selection(types=frozenset({"Order3"}))), most=50)
        ),
        "one id": timed(lambda: listed(index, Search(Selection(ids=frozenset({"m-77"}))), most=50)),
        "text in all bodies": timed(lambda: find(errors, index, Search(text='ORD-77"'), most=50, seconds=60)),
    }
    with capsys.disabled():
        for what, (wall, processor) in took.items():
            sys.stdout.write(
                f"\n  {what:20} {1000 * wall:8.1f} ms, of them {1000 * processor:8.1f} ms of this process"
            )

    assert len(index.failures) == MANY
    assert sum(group.size for group in groups(index.failures)) == MANY
    assert "Index Only Scan" in plan(errors, table.positions(MANY))
    assert "Index Scan" in plan(errors, table.stories([1, 2, 3]))
    assert "Index Scan" in plan(errors, table.containing([1, 2, 3], "ORD-2"))


def timed(work: Callable[[], object]) -> tuple[float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - processor


def plan(session: Session, statement: object) -> str:
    query, parameters = statement.query, statement.parameters  # type: ignore[attr-defined] # a Statement's
    rows = session.connection.execute(b"explain " + query.text, parameters).fetchall()
    return "\n".join(line for (line,) in rows)
