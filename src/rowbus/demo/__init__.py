"""`rowbus demo`: a shop of three endpoints that works through a file of orders and proves that none was lost.

`sales`, `billing` and `shipping` are the endpoints, each served by processes of its own; `messages` is what they say to
each other. They are meant to be read and copied. The rest sets the shop up, feeds it, watches it and checks it:

    web_shop → (sales ⇄ billing, sales ⇄ shipping) → books → analytics → summary → report
    installation, processes, progress, page: before, beside and around that
    course: one run, from the file to the verdict

Invariant: the verdict comes from the database alone. Nothing that a process merely remembers decides PASS or FAIL.
"""

from __future__ import annotations

from pathlib import Path


def main(
    orders: Path | None = None,
    *,
    database: str | None = None,
    workers: int = 1,
    spark: bool | None = None,
    json: bool = False,
    keep: bool = False,
) -> int:
    """Run the demo and return its exit code: 0 all checks passed, 1 one failed, 2 no usable file, 130 interrupted.

    `orders` is a file with one JSON order a line (none given: `orders.ndjson` of this folder); `database` a connection
    string (none given: ROWBUS_DATABASE, else the embedded server); `workers` processes serve each endpoint; `spark`
    says whether Spark takes part (none given: if it can); `keep` leaves the operator's page open until Ctrl-C. The
    summary goes to standard output, as tables or as one JSON document, progress to standard error. Makes the schemas
    `rowbus_demo` and `rowbus_demo_replica` anew and leaves them there. To be called in the main thread: it takes over
    SIGTERM and SIGHUP while it runs.
    """
    from rowbus.demo.course import DemoOptions, run  # noqa: PLC0415 - endpoints load this package, not all of it
    from rowbus.demo.web_shop import default_file  # noqa: PLC0415 - as above

    return run(DemoOptions(orders or default_file(), database, workers, spark, keep), json=json)
