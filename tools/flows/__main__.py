"""Count how far seven flows walk through `src/rowbus`: the files entered, the functions begun, the changes of file.

    python -m tools.flows                    a table, with a target beside each count
    python -m tools.flows send --functions   and the functions themselves, file by file
    python -m tools.flows send --changes     and which file calls or returns to which other one, how often

Each flow really runs, in a temporary database (of ROWBUS_DATABASE, else of the embedded server). The exit code is 1
when one walks further than its ceiling in `tools/flows/limits.py`.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator
from itertools import groupby

from rowbus.testing import temporary_database
from tools.flows import pipelines, services
from tools.flows.limits import Counts, differences, table
from tools.flows.step import Flow, command, walk
from tools.flows.walk import Walk

FLOWS: dict[str, Flow] = {
    "send": services.send,
    "fail": services.fail,
    "delayed": services.delayed,
    "event": services.event,
    "sink": pipelines.sink,
    "lake": pipelines.lake,
    "retry": services.retry,
}
NEEDED = (
    "schema install --log",
    "queue create Sales",
    "queue create Billing",
    "queue create error",
    "delayed create Sales",
    "log create orders",
    "log create changes",
)


def walked_alone(flow: Flow) -> Walk:
    """Walk a flow in a database of its own, where nothing waits that another has left."""
    with temporary_database() as dsn:
        for needed in NEEDED:
            command(*needed.split(), "--database", dsn)
        return walk(flow, dsn)


def counts(walked: Walk) -> Counts:
    """Count."""
    return Counts(len(walked.files), len(walked.functions), walked.changes.total())


def functions(walked: Walk) -> Iterator[str]:
    """Give the functions of a walk, each file's in a line."""
    for file, begun in groupby(sorted(walked.functions), lambda function: function.file):
        yield f"    {file}: {', '.join(function.name for function in begun)}"


def changes(walked: Walk) -> Iterator[str]:
    """Give the changes of file, the most frequent first."""
    for change, times in sorted(walked.changes.items(), key=lambda item: (-item[1], item[0])):
        yield f"    {times:4} {change.before} → {change.after}"


def main() -> int:
    """Walk and print; return 1 if a flow walks further than it may."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("flows", nargs="*", metavar="FLOW", help=f"which: {', '.join(FLOWS)}; all by default")
    parser.add_argument("--functions", action="store_true", help="show the functions begun, file by file")
    parser.add_argument("--changes", action="store_true", help="show the changes of file")
    given = parser.parse_args()
    if unknown := set(given.flows) - set(FLOWS):
        parser.error(f"no flow: {', '.join(sorted(unknown))}")
    logging.disable()
    with temporary_database():  # keeps the server up between two flows
        walks = {name: walked_alone(FLOWS[name]) for name in given.flows or FLOWS}
    for name, walked in walks.items():
        if given.functions:
            print(name, *functions(walked), sep="\n")
        if given.changes:
            print(name, *changes(walked), sep="\n")
    return _judge({name: counts(walked) for name, walked in walks.items()})


def _judge(walked: dict[str, Counts]) -> int:
    """Print the counts; return 1 if one is above its ceiling."""
    print(*table(walked), "Where nothing shorter is wanted yet, the target is the ceiling.", sep="\n")
    differing = list(differences(walked))
    for text, is_more in differing:
        print(f"{text}: {'MORE than it may be' if is_more else 'lower it in tools/flows/limits.py'}")
    return int(any(is_more for _, is_more in differing))


if __name__ == "__main__":
    sys.exit(main())
