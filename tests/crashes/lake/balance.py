"""Three tables that are in balance after each transaction: orders are what was paid and what is open.

So a DuckLake whose tables change at one instant is in balance in every one of its snapshots.

Invariant: the tables are this writer's alone, and none is altered.
"""

from __future__ import annotations

from random import Random
from typing import Final

from tests.crashes.lake.tables import LOG, Action, Transaction
from tests.fixtures.ducklake import attached

TABLES: Final = ("orders", "payments", "open")
SETUP: Final = "; ".join(
    [
        *(f"create table {name} (id int primary key, total int not null)" for name in TABLES),
        *(f"select pgq.capture_table('{name}', '{LOG}')" for name in TABLES),
    ]
)
SUMS: Final = ", ".join(
    f"(select coalesce(sum(total), 0) from lake.public.{name} at (version => {{0}}))" for name in TABLES
)


class Balance:
    """The endless transactions of the writer, by its seed."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._number = 0

    def next(self) -> Transaction:
        """Make the next transaction; some are rolled back, and some open for a while in their midst."""
        chance, some = self._chance, f"where id % 7 = {self._chance.randrange(7)}"
        self._number += 1
        row = f"values ({self._number}, {chance.randint(1, 99)})"
        statements = chance.choices(
            [
                (f"insert into orders {row}", f"insert into open {row}"),
                (f"insert into payments select * from open {some}", f"delete from open {some}"),
                (
                    f"update orders set total = total + 1 {some} and id in (select id from open)",
                    f"update open set total = total + 1 {some}",
                ),
                (
                    f"delete from orders {some} and id in (select id from payments)",
                    f"delete from payments {some}",
                ),
            ],
            (6, 3, 2, 0.5),
        )[0]
        pause = chance.choice((0.0, 0.0, 0.6))
        return Transaction(
            self._number, [Action((each,)) for each in statements], chance.random() < 0.9, pause
        )


def unbalanced(dsn: str) -> list[str]:
    """Say which snapshots of a DuckLake are out of balance, as DuckDB reads them; and if there are none."""
    with attached(dsn) as duck:
        numbers = [
            number for (number,) in duck.execute("select snapshot_id from lake.snapshots()").fetchall()
        ]
        sums = {
            number: duck.execute(f"select {SUMS.format(number)}").fetchone() for number in numbers if number
        }
    wrong = [
        f"snapshot {number}: orders {orders}, payments {payments}, open {still}"
        for number, (orders, payments, still) in sums.items()
        if orders != payments + still
    ]
    return wrong or ([] if any(any(each) for each in sums.values()) else ["no snapshot has rows"])
