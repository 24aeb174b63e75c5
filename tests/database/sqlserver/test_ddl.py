"""SQL Server's tables: the shape NServiceBus and ServiceControl know, in the words of the files."""

from __future__ import annotations

import re

from rowbus.database.sqlserver.statements import script
from rowbus.messages.sqlserver_address import SqlServerAddress
from rowbus.transport.claims.table import claimed_values
from rowbus.transport.deduplication.table import inbox_table
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.delayed_store.table import delayed_store_table
from rowbus.transport.pubsub.table import subscription_routing
from rowbus.transport.queues.shape import QueueColumn
from rowbus.transport.queues.sqlserver_shape import (
    COLUMNS,
    Index,
    SqlServerQueueShape,
    header_warning,
    index_warnings,
    type_name,
)
from rowbus.transport.queues.table import queue_table
from tests.fixtures.every import every

SALES = SqlServerAddress("sa]es", "Shop.Sa]es", "cat")
IN_ORDER = tuple(column._replace(name=column.name.lower()) for column in COLUMNS)


def created(table: object) -> str:
    """Return what creates a table, as sqlcmd would run it."""
    lock, create = table.create()  # type: ignore[attr-defined] # every table's
    assert "sp_getapplock" in script(lock)
    return script(create)


def columns_of(text: str) -> list[str]:
    inner = text.partition(" (\n")[2].partition("\n    );")[0]
    return [" ".join(line.split()).rstrip(",") for line in inner.splitlines()]


def test_a_queue_has_the_eight_columns_in_their_order() -> None:
    assert columns_of(created(queue_table(SALES))) == [
        "Id uniqueidentifier not null",
        "CorrelationId varchar(255)",
        "ReplyToAddress varchar(255)",
        "Recoverable bit not null",
        "Expires datetime",
        "Headers nvarchar(max) not null",
        "Body varbinary(max)",
        "RowVersion bigint identity(1, 1) not null",
    ]


def test_a_queue_is_a_heap_with_nservicebus_two_nonclustered_indexes() -> None:
    text = " ".join(created(queue_table(SALES)).split())

    assert "create nonclustered index Index_RowVersion on [cat].[sa]]es].[Shop.Sa]]es] (RowVersion);" in text
    assert (
        "create nonclustered index Index_Expires on [cat].[sa]]es].[Shop.Sa]]es] (Expires) "
        "include (Id, RowVersion) where Expires is not null;"
    ) in text
    assert "primary key" not in text
    assert not re.search(r"(?<!non)clustered", text)


def test_a_delayed_table_has_nservicebus_four_columns_and_index() -> None:
    text = created(delayed_table(SALES))

    assert columns_of(text) == [
        "Headers nvarchar(max) not null",
        "Body varbinary(max)",
        "Due datetime not null",
        "RowVersion bigint identity(1, 1) not null",
    ]
    assert "create nonclustered index Index_Due\n    on [cat].[sa]]es].[Shop.Sa]]es] (Due);" in text


def test_the_table_of_subscriptions_has_nservicebus_three_columns_and_its_key() -> None:
    assert columns_of(created(subscription_routing(SALES))) == [
        "QueueAddress nvarchar(200) not null",
        "Endpoint nvarchar(200) not null",
        "Topic nvarchar(200) not null",
        "primary key (Endpoint, Topic)",
    ]


def test_the_delayed_stores_table_is_that_of_nservicebus_for_msmq() -> None:
    text = created(delayed_store_table(SALES))

    assert columns_of(text) == [
        "Id nvarchar(250) not null primary key",
        "Destination nvarchar(200)",
        "State varbinary(max)",
        "[Time] datetime",
        "Headers varbinary(max) not null",
        "RetryCount int not null default 0",
    ]
    assert "create nonclustered index Index_Time\n    on [cat].[sa]]es].[Shop.Sa]]es] ([Time]);" in text


def test_an_inbox_tells_keys_apart_byte_for_byte() -> None:
    assert "MessageKey nvarchar(400) collate Latin1_General_BIN2 not null primary key" in columns_of(
        created(inbox_table(SALES))
    )


@every(
    "make",
    [queue_table, delayed_table, subscription_routing, delayed_store_table, inbox_table, claimed_values],
)
def test_every_table_is_made_under_nservicebus_lock_and_only_if_it_is_missing(make: object) -> None:
    table = make(SALES)  # type: ignore[operator] # the factories above
    lock, create = table.create()

    assert lock.parameters == {"resource": "[cat].[sa]]es].[Shop.Sa]]es]_lock"}
    assert "@LockMode = N'Exclusive', @LockOwner = N'Transaction'" in script(lock)
    assert script(create).startswith("if object_id(N'[cat].[sa]]es].[Shop.Sa]]es]', N'U') is null\nbegin")


def test_body_string_is_nservicebus_computed_column_made_under_the_same_lock() -> None:
    lock, add = queue_table(SALES).create_body_string()

    assert lock.parameters == {"resource": SALES.creation_lock}
    assert "add BodyString as cast(Body as nvarchar(max));" in script(add)


# --------------------------------------------------------------------------------------------------------------- shape


def test_a_queue_as_made_differs_in_nothing() -> None:
    body_string = QueueColumn("bodystring", "nvarchar(max)", nullable=True, filled=True)

    assert _shape(*IN_ORDER).differences() == ()
    assert _shape(*IN_ORDER, body_string).differences() == ()


@every(
    "columns, difference",
    [
        (IN_ORDER[1:], "the column Id (uniqueidentifier) is missing"),
        ((*IN_ORDER[:3], *IN_ORDER[4:]), "the column Recoverable (bit) is missing"),
        (
            (*IN_ORDER[:5], IN_ORDER[5]._replace(type="varchar(max)"), *IN_ORDER[6:]),
            "the column Headers is varchar(max) instead of nvarchar(max)",
        ),
        ((IN_ORDER[0]._replace(nullable=True), *IN_ORDER[1:]), "the column Id takes null"),
        (
            (*IN_ORDER[:7], IN_ORDER[7]._replace(filled=False)),
            "the column RowVersion is no identity column: it takes no number by itself",
        ),
        (
            (*IN_ORDER, QueueColumn("extra", "int", nullable=False)),
            "the column extra (int) does not belong to a queue, and every send fails on it: it takes no null",
        ),
    ],
)
def test_a_difference_is_one_sentence(columns: tuple[QueueColumn, ...], difference: str) -> None:
    assert _shape(*columns).differences() == (difference,)


def test_a_table_without_recoverable_or_legacy_columns_is_still_a_queue() -> None:
    assert _shape(
        *(column for column in IN_ORDER if column.name not in {"recoverable", "correlationid"})
    ).is_queue
    assert not _shape(*(column for column in IN_ORDER if column.name != "headers")).is_queue


@every(
    "name, length, written",
    [
        ("nvarchar", -1, "nvarchar(max)"),
        ("nvarchar", 400, "nvarchar(200)"),
        ("varchar", 255, "varchar(255)"),
        ("bit", 1, "bit"),
    ],
)
def test_types_are_written_as_in_a_definition(name: str, length: int, written: str) -> None:
    assert type_name(name, length) == written


def test_a_start_warns_of_what_makes_receiving_slow() -> None:
    good = [Index("rowversion", is_clustered=False), Index("expires", is_clustered=False)]

    assert list(index_warnings(good, purges=True)) == []
    assert ["no index on RowVersion" in text for text in index_warnings(good[1:], purges=True)] == [True]
    assert list(index_warnings(good[:1], purges=False)) == []
    assert ["no index on Expires" in text for text in index_warnings(good[:1], purges=True)] == [True]
    old = [Index("rowversion", is_clustered=True)]
    assert ["is clustered" in text for text in index_warnings(old, purges=False)] == [True]


def test_a_start_warns_of_headers_that_lose_characters() -> None:
    assert header_warning("nvarchar") is None
    assert "varchar" in str(header_warning("varchar"))


def _shape(*columns: QueueColumn) -> SqlServerQueueShape:
    return SqlServerQueueShape(SALES, columns, (), None)
