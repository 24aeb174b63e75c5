"""The comparisons of delayed delivery, by name: with plain sends, with bare SQL, and with an idle server.

Invariant: what a target is about is what `make bench` measures; nothing is estimated.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import delayed_sides as sides
from benchmarks.measuring import Side, ratio
from benchmarks.reporting import Bench, Result, console, show

FUTURE = 1_000_000  # messages that are not due
IDLE = 20.0  # seconds
MEASURABLE = 0.2  # per cent of one processor: four ticks of the clock by which the system counts CPU


def store(bench: Bench) -> list[Result]:
    """(s) Storing delayed messages, one by one and by COPY, against sending them at once."""
    results: list[Result] = []
    for title, send, count in (
        ("(s) Client.send", sides.client_send, 3_000),
        ("(s) Client.send_many", sides.client_send_many, 60_000),
    ):
        messages = bench.messages(count)
        plain = send(bench.dsn, messages, None, "at once")
        soon = send(bench.dsn, messages, sides.SOON, "in 50 s, so that the mover is notified")
        later = send(bench.dsn, messages, sides.LATER, "in an hour")
        results += _compare(bench, f"{title}, delayed against at once", [soon, later], plain, 0.8)
    return results


def move(bench: Bench) -> list[Result]:
    """(t) The mover against one bare SQL statement a batch."""
    results: list[Result] = []
    for batch_size in (100, 1000):
        messages = bench.messages(60_000)
        ours = sides.mover_side(bench.dsn, messages, batch_size)
        bare = sides.bare_side(bench.dsn, messages, batch_size, sides.BARE_MOVE, "bare SQL in order")
        net = sides.bare_side(bench.dsn, messages, batch_size, sides.NET_MOVE, "NServiceBus's statement")
        runs = bench.meter.alternate([ours, bare, net], bench.rounds)
        title = f"(t) moving due messages, batches of {batch_size}"
        show(title, runs)
        results.append(Result(title, ratio(runs[ours.name], runs[bare.name]), 0.6))
    return results


def idle(bench: Bench) -> list[Result]:
    """(u) An idle mover beside a million messages that are not due, against one beside none."""
    messages = bench.messages(FUTURE)
    sides.fill_delayed(bench.dsn, messages, due_in=3600)
    sides.create_nothing(bench.dsn)
    beside_none = sides.idle_side(bench.dsn, IDLE, "beside an empty table", "nothing")
    beside_many = sides.idle_side(bench.dsn, IDLE, f"beside {messages:,} future messages", "bench")
    runs = bench.meter.alternate([beside_none, beside_many], min(3, bench.rounds))
    title = "(u) an idle mover"
    show(title, runs, "s")
    console.print("\n".join(sides.plan_of_a_look(bench.dsn)))
    console.print(f"one look: {sides.milliseconds_of_a_look(bench.dsn):.3f} ms")
    more = sides.cpu_share(runs[beside_many.name]) - sides.cpu_share(runs[beside_none.name])
    return [
        Result(f"{title}, CPU for {messages:,} future messages", more, MEASURABLE, unit=" %", at_most=True)
    ]


def _compare(bench: Bench, title: str, ours: list[Side], other: Side, target: float) -> list[Result]:
    runs = bench.meter.alternate([*ours, other], bench.rounds)
    show(title, runs)
    return [Result(f"{title}, {one.name}", ratio(runs[one.name], runs[other.name]), target) for one in ours]


COMPARISONS: dict[str, Callable[[Bench], list[Result]]] = {
    "delayed_store": store,
    "delayed_move": move,
    "delayed_idle": idle,
}
