"""`rowbus demo`: a shop that works through a file of orders.

Invariant: nothing of the demo is loaded unless it is asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rowbus.cli.options import Database, Json, Verbose


def demo(
    *,
    orders: Annotated[
        Path | None, typer.Option("--orders", metavar="PATH", help="A file with one JSON order a line.")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes that serve each endpoint.")] = 1,
    spark: Annotated[
        bool | None,
        typer.Option(
            "--spark/--no-spark", help="Archive, replicate and report with Spark (default: if installed)."
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the operator's page open at the end, until Ctrl-C.")
    ] = False,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Work through a file of orders with three endpoints.

    Sales, Billing and Shipping run as processes of their own; Spark archives what changed and replicates the tables. In
    the end the books are checked: every order must be in exactly one final state, archive and replica must be complete.
    The operator's page is open meanwhile, at the address that is said first.
    Makes the schemas rowbus_demo and rowbus_demo_replica anew. Exit code 1: a check failed.
    """
    from rowbus.demo import main  # noqa: PLC0415 - only this command needs it

    raise typer.Exit(main(orders, database=database, workers=workers, spark=spark, json=as_json, keep=keep))
