"""`make bench-earlier COMMIT=…`: the client CPU of `Client.send`, now against an earlier commit of this repository.

Each side is a process of its own, with the package of its commit and the same libraries, on one server, in turn.
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from benchmarks.servers import running
from rowbus.database.embedded import find_binaries

ROOT = Path(__file__).parents[1]
WARM_UP = 200
PROGRAM = """
import os, sys, psycopg, rowbus
dsn, kind, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with psycopg.connect(dsn, autocommit=True) as connection:
    kept = rowbus.Client(connection)
    def send(times):
        for _ in range(times):
            client = kept if kind == "kept" else rowbus.Client(connection)
            client.send("bench", {"order": 1}, type="Shop.PlaceOrder")
    send(WARM_UP)
    before = os.times()
    send(count)
    after = os.times()
    print((after.user + after.system - before.user - before.system) / count * 1e6)
""".replace("WARM_UP", str(WARM_UP))
KINDS = {"kept": "one client", "new": "a new client each"}


def main() -> None:
    """Compare; print microseconds a message and their ratio."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.earlier", description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("--rounds", type=int, default=7, help="rounds that count, after a cold one")
    parser.add_argument("--messages", type=int, default=4_000)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        earlier = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rowbus-earlier-")))
        _extract(arguments.commit, earlier)
        dsn = running(find_binaries(), stack)
        sources = {arguments.commit: earlier / "src", "now": ROOT / "src"}
        _run(sources["now"], "-m", "rowbus", "queue", "create", "bench", "--database", dsn)
        for kind, title in KINDS.items():
            _compare(f"Client.send, {title}", sources, (dsn, kind, str(arguments.messages)), arguments.rounds)


def _compare(title: str, sources: dict[str, Path], arguments: tuple[str, ...], rounds: int) -> None:
    found: dict[str, list[float]] = {name: [] for name in sources}
    for number in range(rounds + 1):
        for name, source in sources.items():
            cost = float(_run(source, "-c", PROGRAM, *arguments))
            if number > 0:
                found[name].append(cost)
    earlier, now = found.values()
    ratio = statistics.median(b / a for a, b in zip(earlier, now, strict=True))
    costs = ", ".join(f"{name} {statistics.median(costs):.0f} µs" for name, costs in found.items())
    Console().print(
        f"{title}, client CPU a message: {costs}, ratio {ratio:.2f}", soft_wrap=True, highlight=False
    )


def _extract(commit: str, folder: Path) -> None:
    command = ["git", "archive", commit, "src"]
    archive = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")


def _run(source: Path, *command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(
        [sys.executable, *command], env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


if __name__ == "__main__":
    main()
