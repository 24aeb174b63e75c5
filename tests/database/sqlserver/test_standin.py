"""The stand-in for SQL Server: what it must do as the server does, for the tests that run on it to mean something."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from mssql_python import exceptions

from tests.database.sqlserver.standin import driver

pytestmark = pytest.mark.one_version

TABLE = "create table [dbo].[things] (Id bigint identity(1, 1) not null, Name nvarchar(20) not null)"
TAKE = """
    delete [dbo].[things] output deleted.Id, deleted.Name
    where Id = (select top(1) Id from [dbo].[things] with (updlock, readpast, rowlock) order by Id)
"""


@pytest.fixture
def prepared(database: str) -> str:
    driver.prepare_database(database)
    with driver.connect(database) as connection:
        connection.execute(TABLE)
    return database


@pytest.fixture
def connection(prepared: str) -> Iterator[driver.Connection]:
    with driver.connect(prepared) as connection:
        yield connection


def rows(connection: driver.Connection, text: str, *parameters: object) -> list[tuple[Any, ...]]:
    return connection.execute(text, *parameters).fetchall()


def add(connection: driver.Connection, *names: str) -> None:
    for name in names:
        connection.execute("insert into [dbo].[things] (Name) values (?)", name)


def test_columns_come_back_in_lower_case_and_values_go_in_as_they_are(connection: driver.Connection) -> None:
    add(connection, "50% 'Żółw' ?")

    cursor = connection.execute("select Id, Name from [dbo].[things] where Name = ?", "50% 'Żółw' ?")

    assert cursor.description is not None
    assert [column[0] for column in cursor.description] == ["id", "name"]
    assert cursor.fetchall() == [(1, "50% 'Żółw' ?")]


def test_variables_and_control_flow_are_the_batchs(connection: driver.Connection) -> None:
    batch = """
        declare @nocount int = @@options & 512;
        set nocount on;
        declare @n int = cast(nullif(?, N'') as int), @text nvarchar(max) = N'';
        if @n > 2
        begin
            set @text = @text + N'xxx';
            set @n = @n - 1;
        end;
        if @text = N'xxx' select @text as a; else select N'other' as a;
        if @nocount = 0 set nocount off;
        select @@options & 512 as b
    """
    cursor = connection.execute(batch, "3")

    assert cursor.fetchall() == [("xxx",)]
    assert cursor.nextset()
    assert cursor.fetchall() == [(0,)]
    assert not cursor.nextset()


def test_an_error_in_a_transaction_undoes_its_statement_alone(connection: driver.Connection) -> None:
    connection.execute("begin transaction")
    add(connection, "first")
    with pytest.raises(exceptions.IntegrityError):
        connection.execute("insert into [dbo].[things] (Name) values (null)")
    assert rows(connection, "select @@trancount, xact_state()") == [(1, 1)]
    connection.execute("commit transaction")

    assert rows(connection, "select Name from [dbo].[things]") == [("first",)]


def test_with_xact_abort_an_error_ends_the_transaction(connection: driver.Connection) -> None:
    connection.execute("set xact_abort on")
    connection.execute("begin transaction")
    add(connection, "lost")
    with pytest.raises(exceptions.DataError, match="Divide by zero"):
        connection.execute("select 1/0")

    assert rows(connection, "select @@trancount, (select count(*) from [dbo].[things])") == [(0, 0)]


def test_rolling_back_to_a_savepoint_keeps_the_transaction(connection: driver.Connection) -> None:
    connection.execute("begin transaction")
    add(connection, "kept")
    connection.execute("save transaction here")
    add(connection, "undone")
    connection.execute("rollback transaction here")
    connection.execute("commit transaction")

    assert rows(connection, "select Name from [dbo].[things]") == [("kept",)]


def test_an_error_after_rows_is_raised_when_the_next_answer_is_asked_for(
    connection: driver.Connection,
) -> None:
    add(connection, "one")
    cursor = connection.execute("select Name from [dbo].[things]; select 1/0 as failing")

    assert cursor.fetchall() == [("one",)]
    with pytest.raises(exceptions.DataError):
        cursor.nextset()


def test_a_receive_passes_over_locked_rows(prepared: str) -> None:
    with (
        driver.connect(prepared) as holding,
        driver.connect(prepared) as looking,
    ):
        add(holding, "first", "second")
        holding.execute("begin transaction")
        assert rows(holding, TAKE) == [(1, "first")]
        assert rows(looking, TAKE) == [(2, "second")]


def test_errors_are_the_drivers_in_the_words_of_the_server(connection: driver.Connection) -> None:
    with pytest.raises(exceptions.ProgrammingError, match="Invalid object name"):
        connection.execute("select * from [dbo].[gone]")


def test_what_is_no_t_sql_is_refused(connection: driver.Connection) -> None:
    with pytest.raises(exceptions.ProgrammingError, match="Incorrect syntax"):
        connection.execute("delete from [dbo].[things] limit 1")
