"""Sessions on a driver's connection: which calls they make, in which order, and what errors leave of a transaction."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rowbus.database.adaptation import KnownColumns
from rowbus.database.sqlserver.batches import LOOKS_AGAIN, MOST_COPIED, MOST_PREPARED
from rowbus.database.sqlserver.connection import Session
from rowbus.database.sqlserver.transactions import BEGIN, COMMIT, ROLLBACK, STATE
from rowbus.database.statements import Adaptation, Row, Rows, Statement
from rowbus.errors import ConnectionLostError, QueueNotFoundError, StorageError, TransactionConflictError
from tests.database.sqlserver.recording import (
    CONVERSION,
    DEADLOCK,
    LINK_FAILURE,
    NO_TABLE,
    RecordingConnection,
    statement,
)

SAVE, UNDO = "save transaction rowbus_block_2", "rollback transaction rowbus_block_2"
WIDE_TEXT, WIDE_BINARY = (-9, 0, 0), (-3, 0, 0)
ROW = "(?, ?, ?, convert(varbinary(max), ?))"


@pytest.fixture
def wire() -> RecordingConnection:
    return RecordingConnection()


@pytest.fixture
def session(wire: RecordingConnection) -> Session:
    return Session(wire)


def test_values_travel_in_the_order_of_their_marks_as_text_or_bytes(
    wire: RecordingConnection, session: Session
) -> None:
    session.run(statement("send ?, ?, ?, ?, ?", number=7, nothing=None, body=b"", text="ż", truth=True))
    assert wire.calls == [("send ?, ?, ?, ?, ?", "7", "", b"", "ż", "1")]


def test_every_parameter_is_of_one_type_whatever_its_length(
    wire: RecordingConnection, session: Session
) -> None:
    session.run(statement("send ?, ?", text="a", body=b"b"))
    session.run(statement("send ?, ?", text="a" * 9000, body=b""))
    assert wire.sizes == [[WIDE_TEXT, WIDE_BINARY]] * 2


def test_a_statement_that_is_run_again_is_prepared_once_and_others_do_not_disturb_it(
    wire: RecordingConnection, session: Session
) -> None:
    for text in ("a ?", "b ?", "a ?", "c", "a ?"):
        session.run(statement(text, **({"x": 1} if "?" in text else {})))
    assert len(wire.cursors) == 3


def test_no_more_statements_stay_prepared_than_are_allowed(
    wire: RecordingConnection, session: Session
) -> None:
    for number in range(MOST_PREPARED + 3):
        session.run(statement(f"{number} ?", x=1))
    assert [cursor.closed for cursor in wire.cursors].count(False) == MOST_PREPARED


def test_a_statement_that_failed_is_prepared_anew(wire: RecordingConnection, session: Session) -> None:
    wire.fail("send", NO_TABLE)
    with pytest.raises(StorageError):
        session.run(statement("send ?", x=1))
    wire.forget_rules()
    session.run(statement("send ?", x=1))
    assert [cursor.closed for cursor in wire.cursors] == [True, False]


def test_rows_are_tuples_and_their_number_is_told(wire: RecordingConnection, session: Session) -> None:
    wire.answer("select", (1, "a"), (2, "b"))
    query = statement("select").query
    assert session.run(Statement(query, {}, lambda rows, count: (rows, count))) == ([(1, "a"), (2, "b")], 2)


def test_an_error_that_comes_after_the_rows_is_an_error(wire: RecordingConnection, session: Session) -> None:
    wire.answer("receive", ("row",))
    wire.fail_late("receive", NO_TABLE)
    with pytest.raises(StorageError):
        session.run(statement("receive"))
    with pytest.raises(type(NO_TABLE)):
        session.answers("receive", ())


def test_an_error_outside_a_transaction_asks_the_server_nothing(
    wire: RecordingConnection, session: Session
) -> None:
    wire.fail("send", NO_TABLE)
    failing = statement("send")
    with pytest.raises(QueueNotFoundError) as raised:
        session.run(failing._replace(query=failing.query._replace(queue="Sales")))
    assert raised.value.__cause__ is NO_TABLE
    assert wire.texts == ["send"]


def test_a_transaction_is_begun_and_committed_by_batches_of_their_own(
    wire: RecordingConnection, session: Session
) -> None:
    with session.transaction():
        session.run(statement("send ?", x=1))
    assert wire.texts == [BEGIN, "send ?", COMMIT]
    assert not session.in_transaction


def test_whatever_is_raised_in_a_transaction_rolls_it_back(
    wire: RecordingConnection, session: Session
) -> None:
    with pytest.raises(KeyboardInterrupt), session.transaction():
        raise KeyboardInterrupt
    assert wire.texts == [BEGIN, ROLLBACK]


def test_a_transaction_within_one_is_a_savepoint(wire: RecordingConnection, session: Session) -> None:
    with session.transaction():
        with pytest.raises(ValueError, match="undo this"), session.transaction():
            raise ValueError("undo this")
        with session.transaction():
            session.run(statement("kept"))
    assert wire.texts == [BEGIN, SAVE, UNDO, SAVE, "kept", COMMIT]


def test_several_that_are_run_or_undone_leave_the_transaction_usable(
    wire: RecordingConnection, session: Session
) -> None:
    wire.fail("second", NO_TABLE)
    with session.transaction():
        with pytest.raises(StorageError):
            session.run_all([statement("first"), statement("second"), statement("third")], atomic=True)
        session.run(statement("verdict"))
    assert wire.texts == [BEGIN, SAVE, "first", "second", STATE, UNDO, "verdict", COMMIT]


def test_a_doomed_transaction_is_rolled_back_at_once_and_nothing_runs_after_it(
    wire: RecordingConnection, session: Session
) -> None:
    wire.fail("convert", CONVERSION, dooms=True)
    session.enter()
    with pytest.raises(StorageError, match="converting"):
        session.run(statement("convert"))
    with pytest.raises(StorageError, match="rolled the transaction back"):
        session.run(statement("would be in autocommit"))
    session.leave(succeeded=False)
    assert wire.texts == [BEGIN, "convert", STATE, ROLLBACK]
    session.run(statement("next"))
    assert wire.texts[-1] == "next"


def test_a_swallowed_deadlock_does_not_end_in_a_commit(wire: RecordingConnection, session: Session) -> None:
    wire.fail("update", DEADLOCK, ends=True)
    session.enter()
    with pytest.raises(TransactionConflictError):
        session.run(statement("update"))
    with pytest.raises(StorageError, match="rolled the transaction back"):
        session.leave(succeeded=True)
    assert wire.texts == [BEGIN, "update", STATE]
    assert not session.in_transaction


def test_after_a_lost_connection_nothing_is_sent_any_more(
    wire: RecordingConnection, session: Session
) -> None:
    wire.fail("send", LINK_FAILURE)
    with pytest.raises(ConnectionLostError), session.transaction():
        session.run(statement("send"))
    assert session.lost
    assert wire.texts == [BEGIN, "send"]


def test_a_commit_that_fails_leaves_no_transaction_open(wire: RecordingConnection, session: Session) -> None:
    wire.fail("commit", CONVERSION, dooms=True)
    with pytest.raises(StorageError), session.transaction():
        pass
    assert wire.texts == [BEGIN, COMMIT, ROLLBACK]


def test_rows_are_copied_many_at_a_time_and_few_where_they_are_large(
    wire: RecordingConnection, session: Session
) -> None:
    query, row = statement(f"copy {ROW}", place="", due="", headers="", body=b"").query, ("", "a", b"1")
    session.copy(query, [row] * (256 + 64 + 2))
    session.copy(query, [("", "a" * MOST_COPIED, b"3"), row])
    places = [[place for place in call[1:] if str(place).isdecimal()] for call in wire.calls]
    assert [len(each) for each in places if each] == [256, 64, 1, 1, 1, 1]
    assert places[1] == [str(place) for place in range(256)]
    assert wire.texts[2] == f"copy {', '.join([ROW] * 64)}"


def test_what_a_generator_of_rows_raises_comes_out_as_it_is(
    wire: RecordingConnection, session: Session
) -> None:
    def rows() -> Iterator[Row]:
        yield ("a", b"1")
        raise LookupError("not ours")

    with pytest.raises(LookupError, match="not ours"):
        session.copy(statement("copy ?, ?", headers="", body=b"").query, rows())
    assert wire.texts == [BEGIN, ROLLBACK]


def test_closing_rolls_back_because_the_driver_may_keep_the_connection(
    wire: RecordingConnection, session: Session
) -> None:
    session.enter()
    session.close()
    assert wire.texts[-1] == ROLLBACK
    assert wire.calls[-1] == "close"


def columns(*names: str) -> list[tuple[str]]:
    return [(name,) for name in names]


@pytest.fixture
def probe() -> Statement[frozenset[str]]:
    asking = statement("columns")
    return Statement(asking.query, {}, lambda rows, _count: frozenset(name for (name,) in rows))


def test_the_columns_are_asked_for_once_and_choose_the_statement(
    wire: RecordingConnection, session: Session, probe: Statement[frozenset[str]]
) -> None:
    wire.answer("columns", *columns("id", "headers"))
    otherwise = statement("send without ?", x=1).query
    adaptive = statement("send ?", x=1)
    adaptive = adaptive._replace(
        query=adaptive.query._replace(
            adaptation=Adaptation("queue", probe, frozenset({"recoverable"}), otherwise)
        )
    )
    session.run(adaptive)
    session.run(adaptive)
    assert wire.texts == ["columns", "send without ?", "send without ?"]


def test_a_statement_that_fails_on_a_column_has_them_asked_for_again(
    wire: RecordingConnection, session: Session, probe: Statement[frozenset[str]]
) -> None:
    known = KnownColumns()
    known.learn("queue", frozenset({"recoverable"}))
    session.share(known)
    adaptive = statement("send")
    adaptive = adaptive._replace(
        query=adaptive.query._replace(
            adaptation=Adaptation("queue", probe, frozenset({"recoverable"}), statement("otherwise").query)
        )
    )
    wire.fail("send", NO_COLUMN)
    with pytest.raises(StorageError, match="Recoverable"):
        session.run(adaptive)
    wire.answer("columns", *columns("id"))
    session.run(adaptive)
    assert wire.texts == ["send", "columns", "otherwise"]


NO_COLUMN = type(NO_TABLE)(
    "Column not found", "[Microsoft][ODBC][SQL Server]Invalid column name 'Recoverable'."
)


def test_a_look_at_the_catalogue_that_fails_on_a_column_is_repeated(
    wire: RecordingConnection, session: Session
) -> None:
    """On Babelfish it does while another session drops a table."""
    look = statement("select name from sys.columns")
    wire.fail("select", NO_COLUMN)
    with pytest.raises(StorageError, match="Recoverable"):
        session.run(look)
    assert wire.texts == ["select name from sys.columns"] * (1 + LOOKS_AGAIN)


def adapting(probe: Statement[frozenset[str]]) -> Statement[Rows]:
    """Return a send that needs Recoverable, to a table of which the server may list no column."""
    adaptive = statement("send")
    adaptation = Adaptation("queue", probe, frozenset({"recoverable"}), statement("otherwise").query)
    return adaptive._replace(query=adaptive.query._replace(adaptation=adaptation))


def test_columns_that_a_login_may_not_see_are_asked_for_once(
    wire: RecordingConnection, session: Session, probe: Statement[frozenset[str]]
) -> None:
    for _ in range(3):
        session.run(adapting(probe))
    assert wire.texts == ["columns", "send", "send", "send"]


def test_where_no_column_is_seen_the_other_statement_is_next_after_one_that_does_not_fit(
    wire: RecordingConnection, session: Session, probe: Statement[frozenset[str]]
) -> None:
    wire.fail("send", NO_COLUMN)
    with pytest.raises(StorageError, match="Recoverable"):
        session.run(adapting(probe))
    session.run(adapting(probe))
    wire.fail("otherwise", NO_COLUMN)
    with pytest.raises(StorageError):
        session.run(adapting(probe))
    wire.forget_rules()
    session.run(adapting(probe))
    assert wire.texts == ["columns", "send", "otherwise", "otherwise", "send"]


def test_a_table_that_is_missing_is_asked_about_again(
    wire: RecordingConnection, session: Session, probe: Statement[frozenset[str]]
) -> None:
    wire.fail("send", NO_TABLE)
    for _ in range(2):
        with pytest.raises(StorageError):
            session.run(adapting(probe))
    assert wire.texts == ["columns", "send", "columns", "send"]


class TestABorrowedConnection:
    """The user's transaction is the user's to end."""

    @pytest.fixture
    def borrowed(self, wire: RecordingConnection) -> Session:
        return Session(wire, borrowed=True)

    def test_in_autocommit_a_block_is_a_transaction_of_ours(
        self, wire: RecordingConnection, borrowed: Session
    ) -> None:
        with borrowed.transaction():
            borrowed.run(statement("send"))
        assert wire.texts == [STATE, BEGIN, "send", COMMIT]

    def test_in_the_users_transaction_a_block_is_a_savepoint(
        self, wire: RecordingConnection, borrowed: Session
    ) -> None:
        wire.open = 1
        with borrowed.transaction():
            borrowed.run(statement("send"))
        assert wire.texts == [STATE, "save transaction rowbus_block_1", "send"]
        assert wire.open == 1

    def test_with_implicit_transactions_nothing_is_begun_or_committed(
        self, wire: RecordingConnection, borrowed: Session
    ) -> None:
        wire.implicit = True
        with borrowed.transaction():
            borrowed.run(statement("send"))
        assert wire.texts == [STATE, "send"]

    def test_an_error_leaves_the_users_transaction_alone(
        self, wire: RecordingConnection, borrowed: Session
    ) -> None:
        wire.open = 1
        wire.fail("send", CONVERSION, dooms=True)
        with pytest.raises(StorageError):
            borrowed.run(statement("send"))
        assert wire.texts == ["send"]


def test_a_batch_of_somebody_elses_gets_the_drivers_own_errors_and_parameters(
    wire: RecordingConnection, session: Session
) -> None:
    wire.fail("insert", NO_TABLE)
    with pytest.raises(type(NO_TABLE)):
        session.answers("insert ?", (None,))
    assert wire.calls == [("insert ?", None)]


@pytest.mark.parametrize("text", ["rollback", "COMMIT TRAN", "exec dbo.finish", "if 1 = 1 begin transaction"])
def test_after_words_that_may_end_a_transaction_the_server_is_asked(
    text: str, wire: RecordingConnection, session: Session
) -> None:
    session.enter()
    session.answers("insert", ())
    session.answers(text, ())
    assert wire.texts == [BEGIN, "insert", text, STATE]
    wire.open = 0  # as if it had ended it
    session.answers(text, ())
    with pytest.raises(StorageError):
        session.run(statement("would be in autocommit"))
