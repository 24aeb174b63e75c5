"""A session on the server: runs batches, statement by statement, on one connection to PostgreSQL.

Transactions are counted as T-SQL counts them. Each statement of a transaction runs under a savepoint of its own: an
error there leaves the transaction open and usable, unlike in PostgreSQL.

Invariant: between batches the connection is in a transaction exactly when `trancount` is above zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from tests.database.sqlserver.standin.faults import ENDS_TRANSACTION, Fault, Gone, fault_of
from tests.database.sqlserver.standin.rewriting import Rewritten, rewrite
from tests.database.sqlserver.standin.tokens import Token

if TYPE_CHECKING:
    from collections.abc import Generator

NOCOUNT, XACT_ABORT = 512, 16384


class Answer(NamedTuple):
    """One answer of a batch: rows with the names of their columns, a count of rows, or an error."""

    columns: list[str] | None
    rows: list[tuple[Any, ...]]
    touched: int
    fault: Fault | None = None


class Machine:
    """Facts that the server knows of one session."""

    def __init__(self, connection: psycopg.Connection[Any], *, catalog: str) -> None:
        self._connection = connection
        self._catalog = catalog
        self.trancount = 0
        self.refusals = 0  # of application locks
        self.doomed = False
        self.xact_abort = False
        self.prepared = list[
            tuple[str, str]
        ]()  # what `sp_prepare` was given: variables and text; the place is the handle

    # --- transactions

    def begin(self) -> None:
        if self.trancount == 0:
            self._connection.execute("begin")
        self.trancount += 1

    def commit(self) -> None:
        if self.trancount == 0:
            raise Fault(3902, "The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION.")
        if self.doomed:
            raise Fault(3930, "The current transaction cannot be committed and cannot support operations.")
        self.trancount -= 1
        if self.trancount == 0:
            self._connection.execute("commit")

    def roll_back(self, savepoint: str = "") -> None:
        if self.trancount == 0:
            raise Fault(3903, "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION.")
        if savepoint:
            if self.doomed:
                raise Fault(3931, "The current transaction cannot be rolled back to a savepoint.")
            self._connection.execute(f'rollback to savepoint "u_{savepoint}"')
            return
        self._connection.execute("rollback")
        self.trancount, self.doomed = 0, False

    def save(self, savepoint: str) -> None:
        if self.trancount == 0:
            raise Fault(628, "Cannot issue SAVE TRANSACTION when there is no active transaction.")
        self._connection.execute(f'savepoint "u_{savepoint}"')

    # --- statements

    @property
    def xact_state(self) -> int:
        return -1 if self.doomed else int(self.trancount > 0)

    @contextmanager
    def guarded(self, verb: str) -> Generator[None]:
        """Run one statement so that an error undoes it alone, or what T-SQL undoes with it."""
        if self.doomed and not verb.startswith(("select", "look")):
            raise Fault(
                3930,
                "The current transaction cannot be committed and cannot support operations that write to the log file.",
            )
        if self.trancount:
            self._connection.execute("savepoint statement")
        try:
            yield
        except psycopg.Error as error:
            if self._connection.closed or self._connection.broken:
                raise Gone from error
            if self.trancount:
                self._connection.execute("rollback to savepoint statement")
                self._connection.execute("release savepoint statement")
            raise fault_of(error) from error
        if self.trancount:
            if verb.startswith("look"):  # its locks were for a moment only
                self._connection.execute("rollback to savepoint statement")
            self._connection.execute("release savepoint statement")

    def judge(self, fault: Fault, *, in_try: bool) -> None:
        """Do to the transaction what such an error does."""
        if self.trancount and (self.xact_abort or fault.number in ENDS_TRANSACTION):
            if in_try:
                self.doomed = True
            else:
                self.roll_back()

    def set_option(self, words: list[str]) -> int:
        """Set an option; return the bit of NOCOUNT that it clears (negative) or sets."""
        match words:
            case ["nocount", switch]:
                return NOCOUNT if switch == "on" else -NOCOUNT
            case ["xact_abort", switch]:
                self.xact_abort = switch == "on"
            case ["lock_timeout", *number]:
                milliseconds = int("".join(number))
                value = {-1: 0, 0: 1}.get(milliseconds, milliseconds)
                self._connection.execute(f"set lock_timeout = {value}")
            case _:
                pass
        return 0

    def rewritten(self, parts: list[Token], types: Mapping[str, str]) -> Rewritten:
        try:
            return rewrite(parts, types, catalog=self._catalog)
        except SyntaxError as error:
            raise Fault(102, str(error)) from error

    def execute(self, rewritten: Rewritten, values: Mapping[str, object]) -> psycopg.Cursor[Any]:
        for name, base in rewritten.domains:
            self._connection.execute("select sys.make_domain(%s, %s)", (name, base))
        return self._connection.execute(rewritten.text.encode(), values if "%(" in rewritten.text else None)

    @property
    def facts(self) -> dict[str, object]:
        """The global variables that are the session's."""
        return {
            "trancount": self.trancount,
            "xact_state": self.xact_state,
            "spid": self._connection.info.backend_pid,
            "db_name": self._catalog,
            "options": XACT_ABORT if self.xact_abort else 0,
            "version": "Microsoft SQL Server 2022 (stand-in) - 16.0.1000.6",
            "suser_sname": self._connection.info.user,
        }
