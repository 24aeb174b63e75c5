"""Statements that differ with the columns a table has: some SQL Server tables lack columns that others have.

A query for tables with certain columns names the query for those without. A session asks the server for the columns
before the first such statement on a table, remembers the answer for all sessions of its database, and forgets it when
a statement fails on a column: the next try asks again.

Invariant: nothing here does I/O; an answer is kept with the database that gave it, never with the SQL, which clients of
several databases share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.running.bounded import Bounded

if TYPE_CHECKING:
    from rowbus.database.statements import Query


class KnownColumns:
    """The columns of one database's tables, as the server last listed them. For any number of threads."""

    def __init__(self) -> None:
        """Know no table."""
        self._columns: dict[str, frozenset[str]] = Bounded()
        self._unlisted: dict[str, bool] = Bounded()
        """Whether a table whose columns are not shown is taken to be complete."""

    def knows(self, table: str) -> bool:
        """Say whether there is nothing to ask about a table's columns."""
        return table in self._columns or table in self._unlisted

    def learn(self, table: str, columns: frozenset[str]) -> None:
        """Note the answer; a table without columns is missing, and is asked for again."""
        if columns:
            self._columns[table] = columns

    def worked(self, table: str) -> None:
        """Note that a statement went through; a table whose columns are not shown is not asked about again.

        Babelfish shows a login that may only insert into a table nothing of it.
        """
        if not self.knows(table):
            self._unlisted[table] = True

    def shows(self, table: str) -> bool:
        """Say whether the server listed the table's columns."""
        return table in self._columns

    def forget(self, table: str) -> None:
        """Have the server asked again: a statement failed on a column."""
        self._columns.pop(table, None)

    def misfitted(self, table: str) -> None:
        """Use the other statement from now on: one failed on a column, and the server lists none."""
        self._unlisted[table] = not self._unlisted.get(table, True)

    def fitting(self, query: Query) -> Query:
        """Return the query that fits its table, as far as the table's columns are known."""
        adaptation = query.adaptation
        if adaptation is None:
            return query
        columns = self._columns.get(adaptation.table)
        if columns is None and not self._unlisted.get(adaptation.table, True):
            return adaptation.otherwise
        return query if columns is None or columns >= adaptation.needs else adaptation.otherwise
